"""BEIR folders: what is read, what is refused with file and line, what is kept and counted."""

from pathlib import Path

import numpy as np
import pytest

from experiments.datasets.beir import BeirDataset, read_qrels
from experiments.datasets.dataset import add_judgment, assemble
from ragtune.core.errors import ConfigError, DatasetError
from ragtune.data.corpus import Corpus, Document


def load(folder: Path, split: str = "test"):
    return BeirDataset(str(folder), split).load()


def append(folder: Path, file: str, line: str | bytes) -> None:
    with (folder / file).open("ab") as out:
        out.write(line.encode() if isinstance(line, str) else line)


def test_a_document_without_text_is_kept_and_counted(collection: Path) -> None:
    append(collection, "corpus.jsonl", '{"_id": "bare"}\n{"_id": "null", "text": null, "title": null}\n')
    dataset = load(collection)
    assert dataset.warnings["documents without text (kept)"] == 3  # with blank-1
    assert dataset.corpus["null"].content == ""


def test_a_query_without_judgments_is_replayed_but_not_judged(collection: Path) -> None:
    append(collection, "queries.jsonl", '{"_id": "q9", "text": "unjudged"}\n')
    dataset = load(collection)
    assert "q9" in dataset.queries
    assert "q9" not in dataset.judged
    assert dataset.warnings["queries without judgments (replayed, not measured)"] == 1


def test_judged_documents_that_the_corpus_lacks_stay_in_the_ideal_ranking(collection: Path) -> None:
    append(collection, "qrels/test.tsv", "q1\tghost\t3\n")
    dataset = load(collection)
    assert dataset.qrels["q1"]["ghost"] == 3
    assert any("corpus does not hold" in what for what in dataset.warnings)


def test_queries_that_only_another_split_judges_are_left_out(collection: Path) -> None:
    append(collection, "queries.jsonl", '{"_id": "q8", "text": "of the training split"}\n')
    append(collection, "qrels/train.tsv", "q8\theart-1\t1\n")
    assert "q8" not in load(collection).queries
    assert list(load(collection, "train").queries) == ["q8"]


def test_a_missing_folder_file_or_split_is_named(collection: Path) -> None:
    with pytest.raises(DatasetError, match="folder '/no/such' does not exist"):
        BeirDataset("/no/such")
    with pytest.raises(DatasetError, match="no split 'dev': allowed are test"):
        BeirDataset(str(collection), "dev")
    (collection / "queries.jsonl").unlink()
    with pytest.raises(DatasetError, match=r"has no queries\.jsonl"):
        BeirDataset(str(collection))
    (collection / "qrels" / "test.tsv").unlink()
    (collection / "queries.jsonl").touch()
    with pytest.raises(DatasetError, match="allowed are null"):
        BeirDataset(str(collection))


@pytest.mark.parametrize(
    ("file", "line", "said"),
    [
        ("corpus.jsonl", '{"text": "no id"}', "corpus.jsonl:13: '_id' is None: allowed is text"),
        ("corpus.jsonl", '{"_id": "", "text": "t"}', "corpus.jsonl:13: '_id' is '': it must not be empty"),
        ("corpus.jsonl", '{"_id": "ship-1", "text": "t"}', "corpus.jsonl: duplicate document id 'ship-1'"),
        ("queries.jsonl", '{"_id": "q1", "text": "again"}', "queries.jsonl:5: duplicate query id 'q1'"),
        ("qrels/test.tsv", "q1\tship-1", "test.tsv:10: malformed line 'q1 ship-1'"),
        ("queries.jsonl", '{"_id": "q9", "text": "\\ud800"}', "queries.jsonl:5: 'text' is '\\ud800': it holds half"),
        ("qrels/test.tsv", "q1\ta b\t1", "test.tsv:10: document id 'a b': an id holds no whitespace"),
        ("qrels/test.tsv", "q1\tx\t1" + "0" * 30, "test.tsv:10: grade 1000000000000000000000000000000: allowed is"),
        ("qrels/test.tsv", "q1\theart-1\t2", "test.tsv:10: document 'heart-1' is judged 1 and 2 for query 'q1'"),
    ],
)
def test_a_bad_line_is_refused_in_a_short_message(collection: Path, file: str, line: str, said: str) -> None:
    append(collection, file, line + "\n")
    with pytest.raises(DatasetError) as refused:
        load(collection)
    message = str(refused.value).removeprefix(str(collection))
    assert said in message
    assert len(message) < 300


def test_every_nth_query_is_kept_with_its_judgments_only(collection: Path) -> None:
    whole = BeirDataset(str(collection)).load()
    sample = BeirDataset(str(collection), every=2).load()
    assert list(sample.queries) == list(whole.queries)[::2]
    assert set(sample.qrels) == set(sample.queries) & set(whole.qrels)
    assert sample.name == f"{whole.name}/every-2"
    with pytest.raises(ConfigError, match=r"dataset\.every=0"):
        BeirDataset(str(collection), every=0)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("q1 0 heart-1 1\nq1 heart-1 0 1\n", "qrels:2: the iteration is 'heart-1' and the document '0': they look"),
        ("q1\theart-1\tQ0\t1\n", "qrels:1: the iteration is 'heart-1' and the document 'Q0'"),
        ("qid,docid,grade,grade\nq1,heart-1,1,0\n", "qrels:1: the column 'grade' comes twice"),
    ],
)
def test_judgments_that_say_two_things_are_refused(collection: Path, content: str, said: str) -> None:
    (collection / "qrels.x").write_text(content)
    with pytest.raises(DatasetError) as refused:
        BeirDataset(str(collection), qrels=str(collection / "qrels.x")).load()
    assert said.replace("qrels:", "qrels.x:") in str(refused.value)


def test_blanks_after_commas_belong_to_texts_but_not_to_judgments(collection: Path) -> None:
    (collection / "qrels" / "test.tsv").unlink()
    (collection / "qrels" / "test.csv").write_text("query-id, corpus-id, score\nq1, heart-1, 1\n")
    (collection / "corpus.jsonl").unlink()
    (collection / "corpus.csv").write_text("_id, text\nheart-1, a heart\n")
    dataset = load(collection)
    assert dataset.qrels == {"q1": {"heart-1": 1}}
    assert dataset.corpus["heart-1"].text == " a heart"


EXPECTED = {"q1": {"d1": 1, "d2": 0}, "q2": {"d1": 2}}


@pytest.mark.parametrize(
    "text",
    [
        "q1 0 d1 1\nq1 0 d2 0\nq2 0 d1 2\n",
        "q1\t0\td1\t1\nq1 0 d2 0\nq2\t0 d1\t2\n",
        "q1 0\td1\t1\nq1\t0  d2\t0 \n q2\t\t0\td1\t2\t\n",
        "  q1\t0\td1\t1\r\nq1\t0\td2\t0\r\nq2\t0\td1\t2\r\n",
        "query-id corpus-id\tscore\nq1\td1\t1\nq1\td2\t0\nq2\td1\t2\n",
        "query-id\tcorpus-id\tscore\tcomment\nq1\td1\t1\ta word or two\nq1\td2\t0\t\nq2\td1\t2\tword\n",
    ],
)
def test_blanks_and_tabs_may_be_mixed(tmp_path: Path, text: str) -> None:
    file = tmp_path / "qrels.tsv"
    file.write_text(text)
    assert read_qrels(file) == EXPECTED


CORPUS = Corpus([Document(id="d1", text="tea")])


@pytest.mark.parametrize("grade", ["1", 1.5, None, True, 10**7])
def test_a_loader_that_gives_a_bad_grade_is_told_where(grade: object) -> None:
    with pytest.raises(DatasetError, match=r"^pairs.csv:7: grade .*: allowed is a whole number from -1000000 to"):
        add_judgment({}, "q1", "d1", grade, "pairs.csv:7: ")
    with pytest.raises(DatasetError, match=r"^dataset 'mine': query 'q1', document 'd1': grade .*: allowed is a whole"):
        assemble("mine", CORPUS, {"q1": "tea"}, {"q1": {"d1": grade}})  # type: ignore[dict-item]


def test_grades_and_ids_of_numpy_are_those_of_python() -> None:
    dataset = assemble("mine", CORPUS, {"q1": "tea"}, {"q1": {"d1": np.int64(2)}})  # type: ignore[dict-item]
    assert [type(grade) for grade in dataset.qrels["q1"].values()] == [int]


def test_a_loader_that_gives_a_query_that_is_no_text_is_told_which() -> None:
    with pytest.raises(DatasetError, match="dataset 'mine': query 1 is 'tea': allowed are texts"):
        assemble("mine", CORPUS, {1: "tea"}, {})  # type: ignore[dict-item]
