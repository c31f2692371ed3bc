"""Files of ranked documents: what is understood, and what is refused with its place."""

from pathlib import Path

import numpy as np
import pytest
from collection_forms import saved_splits

from ragtune.core.errors import DatasetError
from ragtune.data.runs import runfile
from ragtune.data.runs.run import Run, RunBuilder
from ragtune.data.runs.runfile import read_run

LINES = b"q1 Q0 b 1 2.0 x\nq1 Q0 a 2 1.0 x\n"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("q1 Q0 d 1 0.5", "malformed line 'q1 Q0 d 1 0.5'"),
        (f"q1 Q0 d {'9' * 5000} 0.5 x", "malformed line"),
        (f"q1 Q0 d 1 {'9' * 5000} x", "score inf of"),
        ("q1 Q0 b 1 0.5 x", "document 'b' comes twice for query 'q1'"),
    ],
)
def test_a_bad_line_is_named_by_number_and_quoted_shortly(tmp_path: Path, line: str, said: str) -> None:
    (tmp_path / "a.run").write_bytes(LINES + line.encode() + b"\n")
    with pytest.raises(DatasetError) as refused:
        read_run(tmp_path / "a.run")
    message = str(refused.value).removeprefix(str(tmp_path))
    assert f"a.run:3: {said}" in message
    assert len(message) < 300


def ids(run: Run) -> dict[str, list[str]]:
    return {query: [entry.doc_id for entry in entries] for query, entries in run.items()}


def test_a_run_of_ms_marco_has_ranks_and_no_scores(tmp_path: Path) -> None:
    file = tmp_path / "run.tsv"
    file.write_text("q1\tb\t2\nq1\ta\t1\nq2\tc\t1\n")
    run = read_run(file)
    assert ids(run) == {"q1": ["a", "b"], "q2": ["c"]}
    assert [entry.score for entry in run["q1"]] == [1.0, 0.5]
    with pytest.raises(DatasetError, match="'query_id doc_id rank' hold no scores"):
        read_run(file, needs_scores=True)
    file.write_text("q1\tb\t2\nq1\ta\t0\n")
    with pytest.raises(DatasetError, match=r"run\.tsv:2: malformed line 'q1\\ta\\t0': expected 'query_id doc_id rank'"):
        read_run(file)


def test_entries_in_any_order_are_sorted_by_query_score_rank_and_id() -> None:
    rng = np.random.default_rng(1)
    queries = [f"q{i}" for i in rng.integers(0, 9, 200)]
    documents = [f"d{i}" for i in rng.permutation(200)]
    ranks, scores = rng.integers(1, 4, 200).tolist(), rng.integers(0, 3, 200).astype(float).tolist()
    every = list(zip(queries, documents, ranks, scores, strict=True))
    builder = RunBuilder()
    for entry in every:
        builder.add(*entry)
    run = builder.built()
    assert list(run) == list(dict.fromkeys(queries))
    for query in run:
        own = sorted((-score, rank, doc_id) for q, doc_id, rank, score in every if q == query)
        assert [(-entry.score, entry.rank, entry.doc_id) for entry in run[query]] == own


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("qid,docid\nq1,d1\n", "run:1: no column for 'score': it has 'qid, docid'; 'score' may be called score"),
        ("qid,docno,score\nq1,d1,high\n", "run:2: 'score' is 'high': allowed is a finite number"),
        (
            "qid,docno,score\nq1,d1,1,2\n",
            "run:2: malformed line 'q1 d1 1 2': expected qid, docno, score, separated by commas",
        ),
        ('qid,docno,score\nq1,"d1,1\nq2,d2,2\n', "run:2: malformed CSV: unexpected end of data"),
        ('{"qid": "q1", "docno": "d", "score": NaN}', "run:1: 'score' is nan: allowed is a finite number"),
        ("<html>", "run:1: malformed line '<html>': expected 'query_id Q0 doc_id rank score tag'"),
        ("q1 a 1\nq1 b 1\n", "run:2: the third column of 'query_id doc_id rank', for query 'q1': 1 comes twice"),
        (
            "q1 a 90\nq1 b 70\n",
            "run:1: the third column of 'query_id doc_id rank', for query 'q1': the largest of 2 is 90",
        ),
        (
            "qid,docno,score,score\nq1,d,1,2\n",
            "run:1: the column 'score' comes twice: it has 'qid, docno, score, score'",
        ),
        ("qid,docno,score\nq1,d,1\nq1 ,d,1\n", "run:3: 'query_id' is 'q1 ': an id holds no whitespace"),
        ("PAR1 is no Parquet", "run: cannot be read as Parquet: "),
    ],
)
def test_what_is_wrong_in_other_forms_is_named_with_its_place(tmp_path: Path, content: str, said: str) -> None:
    (tmp_path / "run").write_text(content)
    with pytest.raises(DatasetError) as refused:
        read_run(tmp_path / "run")
    message = str(refused.value).removeprefix(f"{tmp_path}/")
    assert message.startswith(said)
    assert "\n" not in message
    assert len(message) < 400


def test_a_folder_says_which_of_its_splits_can_be_named(tmp_path: Path) -> None:
    rows = [{"qid": "q1", "docno": "a", "score": 1.0}]
    saved_splits(tmp_path / "run", {"dev": rows, "test": rows})
    with pytest.raises(DatasetError, match=r"holds 2 splits: name one: .*/run/dev, .*/run/test"):
        read_run(tmp_path / "run")
    assert ids(read_run(tmp_path / "run" / "dev")) == {"q1": ["a"]}
    (tmp_path / "empty").mkdir()
    with pytest.raises(DatasetError, match=r"empty' holds no such files: allowed are the pieces"):
        read_run(tmp_path / "empty")


REVERSED = "q1 Q0 a 1 0.1 x\nq1 Q0 b 2 0.2 x\nq1 Q0 c 3 0.3 x\nq2 Q0 a 1 0.1 x\n"


def test_scores_that_rise_with_the_ranks_of_every_query_are_no_scores(tmp_path: Path) -> None:
    file = tmp_path / "run"
    file.write_text(REVERSED)
    with pytest.raises(DatasetError, match="run:1: the scores of query 'q1' rise with its ranks, and fall in no query"):
        read_run(file)
    assert ids(read_run(file, needs_scores=True))["q1"] == ["c", "b", "a"]
    file.write_text(REVERSED + "q3 Q0 a 1 0.1 x\nq3 Q0 b 2 0.3 x\nq3 Q0 c 3 0.2 x\n")  # ranks of another order
    assert ids(read_run(file))["q1"] == ["c", "b", "a"]


def test_blanks_after_the_commas_of_a_csv_mean_nothing(tmp_path: Path) -> None:
    (tmp_path / "run").write_text('qid, docno, score, rank\nq1, b, 2.0, 0\nq1, "a,c", 1.0, 1\n')
    assert ids(read_run(tmp_path / "run")) == {"q1": ["b", "a,c"]}
    (tmp_path / "run").write_text("q1, b, 1\nq1, a, 2\n")
    with pytest.raises(DatasetError, match="run:1: no column for 'query_id'"):
        read_run(tmp_path / "run")


def test_the_columns_of_a_large_file_are_found_again_and_say_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAGTUNE_CACHE", str(tmp_path / "cache"))
    file = tmp_path / "run"
    file.write_text("q2 Q0 ü 1 5 t\nq1 Q0 b 2 .5 t\nq1 Q0 c 2 .5 t\nq2 Q0 a 9 7.25 t\nq1 Q0 ü 1 -1 t\n")
    small = read_run(file)
    monkeypatch.setattr(runfile, "_WORTH_KEEPING", 0)
    kept = []
    for _ in range(2):
        runfile._read_version.cache_clear()
        kept.append(read_run(file))
        monkeypatch.setattr(runfile, "_read", None)  # the second time, nothing is read
    for run in kept:
        assert dict(run) == dict(small) == {query: list(small[query]) for query in ("q2", "q1")}
        assert list(run.doc_ids) == ["ü", "b", "c", "a"]
        documents, scores = run.best("q1", 2)
        assert ([run.doc_ids[i] for i in documents], scores) == (["b", "c"], [0.5, 0.5])
        assert run.scores("q2") == {"a": 7.25, "ü": 5.0}
        assert run.scores("q3") == {}
    assert isinstance(kept[1]._scores.base, np.memmap)
