"""Finished queries survive whatever happens to the process."""

import json
import resource
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import pytest

from experiments.evaluate.record import QueryRecord
from experiments.replay import journal as journals
from experiments.replay.journal import Journal
from ragtune.core.errors import ConfigError

IDENTITY = {"fingerprint": "print", "settings": "set", "inputs": {"scores.run": "12"}}


@pytest.fixture
def records(fakes: SimpleNamespace) -> list[QueryRecord]:
    runs = [fakes.controller(documents=fakes.docs(n)).run for n in (7, 7, 4)]  # alike, and not
    return [QueryRecord.of(run("query", query_id=f"q{i}")) for i, run in enumerate(runs)]


@pytest.fixture
def begun(tmp_path: Path, records: list[QueryRecord]) -> Path:
    with Journal(tmp_path, IDENTITY, resume=False) as journal:
        for record in records:
            journal.append(record)
    return tmp_path / Journal.NAME


def test_records_come_back_after_the_file_was_removed(begun: Path, records: list[QueryRecord]) -> None:
    with Journal(begun.parent, IDENTITY, resume=True) as journal:
        begun.unlink()  # what it has read stays there
        assert list(journal.finished.values()) == records
        assert [kept.to_line() for kept in journal.finished.values()] == [record.to_line() for record in records]


GARBAGE = [
    b'{"ids": 3, "rankings": []}\n',
    b'{"query_id": "q2", "doc',
    b'{"query_id": "q2", "doc\n',
    b"\x00\x00\xff\n",
    b'{"query_id": 3}\n',
    b"[1]\n",
]


@pytest.mark.parametrize("garbage", [*GARBAGE, None])
def test_a_line_cut_short_or_garbled_is_discarded_and_overwritten(
    begun: Path, records: list[QueryRecord], garbage: bytes | None
) -> None:
    whole = begun.read_bytes()
    lines = whole.splitlines(keepends=True)
    begun.write_bytes(b"".join(lines[:3]) + (lines[3][:-9] + b"\n" if garbage is None else garbage))
    with Journal(begun.parent, IDENTITY, resume=True) as journal:
        assert list(journal.finished) == ["q0", "q1"]
        journal.append(records[2])
    assert begun.read_bytes() == whole


def test_no_flipped_byte_gives_another_record(begun: Path, records: list[QueryRecord]) -> None:
    whole = begun.read_bytes()
    header = whole.index(b"\n") + 1
    for place in range(header, len(whole), 97):
        begun.write_bytes(whole[:place] + bytes([whole[place] ^ 4]) + whole[place + 1 :])
        with Journal(begun.parent, IDENTITY, resume=True) as journal:
            sound = whole.count(b"\n", header, place)
            assert list(journal.finished.values()) == records[:sound]


@pytest.mark.parametrize("header", [b"", b'{"finger', b"\x00\n"])
def test_a_journal_without_a_header_starts_over(tmp_path: Path, header: bytes, records: list[QueryRecord]) -> None:
    (tmp_path / Journal.NAME).write_bytes(header)
    with Journal(tmp_path, IDENTITY, resume=True) as journal:
        assert journal.finished == {}
        journal.append(records[0])
    with Journal(tmp_path, IDENTITY, resume=True) as journal:
        assert list(journal.finished) == ["q0"]


@pytest.mark.parametrize("version", [{}, {"version": 4}, {"version": 99}])
def test_a_journal_of_another_version_is_refused(begun: Path, version: dict[str, int]) -> None:
    begun.write_text(json.dumps({**IDENTITY, **version}) + "\n")
    with pytest.raises(ConfigError, match="another version"):
        Journal(begun.parent, IDENTITY, resume=True)


def test_a_shard_that_does_not_fit_on_the_disk_is_taken_back_whole(tmp_path: Path, records: list[QueryRecord]) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    with Journal(tmp_path, IDENTITY, resume=False) as journal:
        journal.append(records[0])
        size = journal.path.stat().st_size
        resource.setrlimit(resource.RLIMIT_FSIZE, (size + len(records[1].to_line()) + 50, hard))
        try:
            with pytest.raises(OSError, match="File too large"):
                journal.append(*records[1:])
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert journal.path.stat().st_size == size
        assert list(journal.finished) == ["q0"]
        journal.append(records[1])
    with Journal(tmp_path, IDENTITY, resume=True) as journal:
        assert list(journal.finished) == ["q0", "q1"]


def test_ctrl_c_right_after_a_record_was_written_keeps_it(
    tmp_path: Path, records: list[QueryRecord], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journals.StoredRecords, "put", Mock(side_effect=KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt), Journal(tmp_path, IDENTITY, resume=False) as journal:
        journal.append(records[0])
    monkeypatch.undo()
    with Journal(tmp_path, IDENTITY, resume=True) as journal:
        assert list(journal.finished) == ["q0"]


def test_a_kill_while_the_journal_forgets_queries_costs_none_of_the_others(
    begun: Path, records: list[QueryRecord], monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with Journal(begun.parent, IDENTITY, resume=True) as journal:
        with monkeypatch.context() as patched:
            patched.setattr(Path, "replace", killed)
            with pytest.raises(KeyboardInterrupt):
                journal.forget(["q1"])
        assert set(Journal(begun.parent, IDENTITY, resume=True).finished) == {"q0", "q1", "q2"}
        journal.forget(["q1"])
        journal.append(records[1])
    with Journal(begun.parent, IDENTITY, resume=True) as journal:
        assert list(journal.finished) == ["q0", "q2", "q1"]
