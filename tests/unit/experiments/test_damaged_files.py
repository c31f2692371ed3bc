"""Whatever bytes an input file holds, reading it ends well or in an error that names it, and in no other."""

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest
from collection_forms import saved
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from experiments.datasets.beir import BeirDataset
from ragtune.core.errors import ConfigError, DatasetError, ScoreTableError
from ragtune.data.corpus import Corpus
from ragtune.data.graph import CorpusGraph
from ragtune.data.runs.runfile import read_run
from ragtune.rerankers.score_table import ScoreTable

READERS: dict[str, Callable[[Path, Corpus], object]] = {
    "tiny/corpus.jsonl": lambda folder, _: BeirDataset(str(folder / "tiny")).load(),
    "tiny/queries.jsonl": lambda folder, _: BeirDataset(str(folder / "tiny")).load(),
    "tiny/qrels/test.tsv": lambda folder, _: BeirDataset(str(folder / "tiny")).load(),
    "tiny/bm25.run": lambda folder, _: read_run(folder / "tiny" / "bm25.run"),
    "tiny/scores.run": lambda folder, _: ScoreTable(folder / "tiny" / "scores.run"),
    "tiny/scores.run.manifest.json": lambda folder, _: ScoreTable(folder / "tiny" / "scores.run"),
    "scores.parquet": lambda folder, _: ScoreTable(folder / "scores.parquet"),
    "scores.csv": lambda folder, _: ScoreTable(folder / "scores.csv"),
    "saved/data-00000-of-00001.arrow": lambda folder, _: ScoreTable(folder / "saved"),
    "topics.xml": lambda folder, _: BeirDataset(str(folder / "tiny"), None, queries=str(folder / "topics.xml")).load(),
    "graph/graph.json": lambda folder, corpus: CorpusGraph.open(folder / "graph", corpus),
    "graph/neighbours.npy": lambda folder, corpus: CorpusGraph.open(folder / "graph", corpus),
    "graph/weights.npy": lambda folder, corpus: CorpusGraph.open(folder / "graph", corpus),
}

SPLICES = [
    *(b"\x00", b"\xff", b"\xff\xfe", b"\xef\xbb\xbf", b"\xed\xa0\x80", b"\x1f\x8b", b"PAR1", b"\n", b"\r", b"\t", b" "),
    *(b'"', b"{", b"[" * 5000, b"}", b"9" * 5000, b"1e999", b"NaN", b"-", b"null", b"true", b'"\\ud800"', b"\\u0000"),
]
places = st.floats(0, 1)
damages = st.one_of(
    st.tuples(places, places, st.just(b"")),  # cut out
    st.tuples(places, st.just(0.0), st.sampled_from(SPLICES) | st.binary(min_size=1, max_size=8)),  # put in
    st.tuples(places, st.floats(0, 0.02), st.sampled_from(SPLICES) | st.binary(min_size=1, max_size=8)),  # replaced
)


@pytest.fixture
def files(collection: Path, corpus: Corpus, make_graph: Callable[..., str]) -> SimpleNamespace:
    root = collection.parent
    manifest = {"scale": "identity", "model": "m", "ms_per_doc": 1.5, "tokens_per_doc": 20, "more": [1, {"a": None}]}
    (collection / "scores.run.manifest.json").write_text(json.dumps(manifest))
    frame = pd.DataFrame({"query_id": ["q1", "q2"], "doc_id": ["heart-1", "ship-1"], "score": [0.5, 0.25]})
    frame.to_parquet(root / "scores.parquet")
    frame.to_csv(root / "scores.csv", index=False)
    saved(root / "saved", frame.to_dict("records"))
    topics = [f'<topic number="{i}"><title>a &amp; b</title><narrative>c</narrative></topic>' for i in (1, 2)]
    (root / "topics.xml").write_text(f"<topics>{''.join(topics)}</topics>")
    make_graph(root / "graph", corpus, {"heart-1": {"heart-2": 0.5, "heart-3": 0.25}}, k=2)
    return SimpleNamespace(root=root, corpus=corpus)


def refusal_of(read: Callable[[], object]) -> str:
    try:
        read()
    except (DatasetError, ScoreTableError, ConfigError) as error:
        return str(error)
    return ""


@pytest.mark.filterwarnings("ignore:Reading .*npy")
@pytest.mark.parametrize("name", list(READERS))
def test_only_errors_that_name_the_input_leave(files: SimpleNamespace, name: str) -> None:
    file, read = files.root / name, READERS[name]
    sound = file.read_bytes()
    assert read(files.root, files.corpus) is not None

    @settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
    @given(st.lists(damages, min_size=1, max_size=3))
    @example([(0.0, 1.0, b"")])
    @example([(0.0, 1.0, sound.decode("latin-1").encode("utf-16"))])
    def damaged(changes: list[tuple[float, float, bytes]]) -> None:
        data = sound
        for start, length, new in changes:
            at = int(start * len(data))
            data = data[:at] + new + data[at + int(length * len(data)) :]
        file.unlink(missing_ok=True)
        file.write_bytes(data)
        said = refusal_of(lambda: read(files.root, files.corpus)).replace(str(files.root), "")
        assert "\n" not in said
        assert len(said) < 500

    damaged()
