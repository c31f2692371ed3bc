"""What the page and the command line share, without Streamlit: documents, conversation, settings, the session."""

import json
from pathlib import Path
from typing import Any

import pytest

from ragtune.core.errors import ConfigError, DatasetError
from ragtune.superprompt.memory.inputs import demo_folder, parse_conversation, read_folder
from ragtune.superprompt.page.session import PageSession, read_uploads

BREAD = {"bread.md": "# Crumb\n\nA gummy crumb means it was cut hot.", "tea.txt": "Tea is steeped."}
NO_RERANKER = "reranker: {kind: none}"


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> PageSession:
    monkeypatch.setenv("PAGE_TEST_KEY", "secret-of-the-page")
    session = PageSession("Why is my crumb gummy?")
    session.documents = (BREAD,)
    session.set_settings(NO_RERANKER)
    return session


def test_a_collection_has_titles_before_the_texts_and_malformed_records_are_left_out(tmp_path: Path) -> None:
    documents = read_folder(demo_folder())
    assert len(documents) == 341
    assert documents["sourdough-01"].startswith("Tight, heavy bread and what it tells you: A heavy, gummy")
    (tmp_path / "corpus.jsonl").write_text('{"_id": "a", "text": "x"}\n{"_id": "a", "text": "y"}\nnot json\n')
    assert read_folder(tmp_path) == {"a": "x"}
    (tmp_path / "corpus.jsonl").write_text("{")
    with pytest.raises(DatasetError, match=r"corpus.jsonl:1': 'no JSON object"):
        read_folder(tmp_path)


def test_each_refused_upload_is_named_and_the_others_are_used() -> None:
    bad = [("a.md", b"y"), ("bad.md", b"\xff"), ("binary.md", b"a\0b"), ("empty.md", b" \n")]
    documents, refused = read_uploads([("a.md", b"x"), *bad, ("b.md", b"z")])
    assert documents == {"a.md": "x", "b.md": "z"}
    assert [line.split(":")[0] for line in refused] == [name for name, _ in bad]


def test_a_conversation_is_read_as_lines() -> None:
    turns = parse_conversation("User: Hello,\nyou.\n\nassistant: Good morning.\n")
    assert [(turn.role, turn.content) for turn in turns] == [("user", "Hello,\nyou."), ("assistant", "Good morning.")]
    assert parse_conversation(" \n") == []
    for wrong in ("Hello", "User:"):
        with pytest.raises(ConfigError, match="conversation"):
            parse_conversation(wrong)


def test_auto_keeps_what_was_reached_before_a_failure(session: PageSession, tmp_path: Path) -> None:
    session.set_settings(f"reranker: {{kind: cross_encoder, model: {tmp_path / 'nowhere'}}}")
    session.run_all()
    assert session.sp.stage == "retrieval"
    assert session.problem is not None
    assert session.problem.startswith("ReRanker failed")
    assert [row["stage"] for row in session.costs][-2:] == ["Retrieval", "ReRanker (failed)"]


def test_the_final_prompt_is_answered_and_billed_and_the_key_shows_nowhere(
    session: PageSession, llm_server: Any
) -> None:
    session.run_all()
    llm = f"model: test-model, base_url: {llm_server.url!r}, api_key_env: PAGE_TEST_KEY, mode: live"
    session.set_settings(f"{NO_RERANKER}\nllm: {{{llm}}}")
    assert session.can_ask
    session.ask()
    assert session.problem is None
    assert session.answer
    assert "A gummy crumb means it was cut hot." in json.dumps(llm_server.requests[-1].body)
    assert session.costs[-1]["stage"] == "answer"
    assert session.costs[-1]["tokens"] > 0
    assert "secret-of-the-page" not in f"{session.sp.to_json()}{session.costs}{session.options}"
