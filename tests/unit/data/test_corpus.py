import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragtune import Corpus, Document
from ragtune.core.errors import DatasetError
from ragtune.data import storedcorpus
from ragtune.data.corpus import best_positions, id_ranks
from ragtune.data.storedcorpus import stored


def test_duplicate_ids_are_refused_by_name():
    with pytest.raises(DatasetError, match="duplicate document id 'x'"):
        Corpus([Document(id="x", text="1"), Document(id="x", text="2")])


def test_the_digest_knows_ids_contents_and_order_and_nothing_else():
    one, two = Document(id="a", text="x"), Document(id="b", text="y")
    digest = Corpus([one, two]).digest
    assert digest == Corpus([one, two], count=len).digest
    others = [[two, one], [one], [Document(id="a", text="xb"), two], [Document(id="ab", text="x"), two]]
    assert len({digest, *(Corpus(docs).digest for docs in others)}) == 5


def test_a_stored_corpus_is_the_one_in_memory_and_is_read_once(private_cache: Path) -> None:
    documents = [
        Document(id="zoë", text="Weiß, 東京", title="Ü"),
        Document(id="a", text=""),
        Document(id="z", text="of z", title=""),
        Document(id="a-longer-id", text="text", title="title"),
        Document(id="é", text="x"),
        *(Document(id="u" * length + end, text=end) for length in (63, 64, 30_000) for end in ("b", "", "a")),
    ]
    memory = Corpus(documents)
    for read in (lambda: documents, None):
        disk = stored(read, "key")
        assert list(disk) == list(memory)
        assert (disk.digest, len(disk)) == (memory.digest, len(memory))
        assert (list(disk.doc_ids), list(disk.contents)) == (memory.doc_ids, memory.contents)
        assert (disk.doc_ids[-1], disk.doc_ids[1:3]) == (memory.doc_ids[-1], memory.doc_ids[1:3])
        assert disk.ids_at([4, 0, 2]) == memory.ids_at([4, 0, 2]) == ["é", "zoë", "z"]
        assert disk.ids_at(range(14)) == memory.ids_at(range(14)) == memory.doc_ids
        assert disk.ids_at([]) == memory.ids_at([]) == []
        for corpus in (disk, memory):
            for places in ([4, 0, 2], (4, 0, 2), np.array([4, 0, 2], dtype=np.uint32), range(4, -1, -2), (), range(0)):
                ids, scores = [memory.doc_ids[i] for i in places], [0.5] * len(places)
                found = corpus.hits_at(places, scores)
                assert corpus.ids_at(places) == [document.id for document in found] == ids
                assert found == found[:] == memory.hits_at(memory.positions(ids), scores)
        assert disk.positions(["é", "a"]) == memory.positions(["é", "a"]) == [4, 1]
        assert disk.id_ranks.tolist() == memory.id_ranks.tolist()
        for document in documents:
            assert disk.position(document.id) == memory.position(document.id)
            assert disk.scored(document.id, 1.0) == memory.scored(document.id, 1.0)
        ids = [document.id for document in documents]
        unknown = ["", "b", "zz", "u" * 65, "z\0", "half \ud800"]
        mixed = [name for pair in zip(ids, unknown * 3, strict=False) for name in pair]
        for names in ([], ids, unknown, mixed):
            found = disk.places(names)
            assert found.tolist() == memory.places(names).tolist()
            assert [ids[i] if i >= 0 else None for i in found.tolist()] == [n if n in ids else None for n in names]
        for corpus in (disk, memory):
            with pytest.raises(DatasetError, match="unknown document id 'zz'"):
                corpus.positions(["a", "zz", "b"])
            assert [name for name in unknown if name in corpus] == []
    twice = [*documents, documents[2], documents[-1]]
    for wrong, message in ((twice, "duplicate document id 'z'"), (twice[:-2] + twice[-1:], "'uuu"), ([], "empty")):
        with pytest.raises(DatasetError, match=message):
            stored(lambda wrong=wrong: wrong, message)


def test_a_stored_corpus_remembers_documents_at_work_and_no_others(
    private_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storedcorpus, "_REMEMBERED", 4)
    documents = [Document(id=f"d{i}", text=f"text {i}") for i in range(20)]
    ids, scores = [document.id for document in documents], [1.0] * 20
    memory, disk = Corpus(documents), stored(lambda: documents, "key")
    asked = (lambda n: disk.hits_at(disk.positions(ids[n]), scores[n]), lambda n: disk.hits_at(range(20)[n], scores[n]))
    for ask in asked:
        (first,) = ask(slice(1)).facts
        assert ask(slice(2)).facts[0] is first
        for some in (slice(20), slice(4, 8), slice(8, 12)):  # more than are remembered
            assert list(ask(some)) == list(memory.hits_at(memory.positions(ids[some]), scores[some]))
        assert ask(slice(1)).facts[0] is not first


def test_a_collection_is_written_to_the_cache_alone_and_where_there_is_none_set_aside(
    private_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    documents = [Document(id=f"d{i}", text=f"text {i}") for i in range(3)]
    for cache in (None, tmp_path / "no-folder" / "file"):
        (tmp_path / "no-folder").write_text("")
        assert list(stored(lambda: documents, "key", cache)) == documents
    assert "going on without it" in caplog.text
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "has no room"))
    assert list(stored(lambda: documents, "key")) == documents
    assert list(stored(None, "key")) == documents


scored = st.dictionaries(st.text("abc", min_size=1, max_size=4), st.sampled_from([0.0, 0.5, 1.0, -1.0]))


@given(scored, st.integers(0, 12), st.sampled_from([-2.0, 0.0]))
def test_is_a_full_sort_of_what_exceeds_the_floor_cut_off(scores: dict[str, float], k: int, above: float) -> None:
    ids = [name for name in scores if scores[name] > above]
    best = best_positions(np.array(list(scores.values())), id_ranks(list(scores)), k, above=above)
    assert [list(scores)[i] for i in best] == sorted(ids, key=lambda i: (-scores[i], i))[:k]
