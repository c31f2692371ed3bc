"""The script that Streamlit runs: it draws a :class:`PageSession` and forwards clicks to it."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

import streamlit as st

from ragtune.superprompt.memory.inputs import SUFFIXES, Documents, demo_folder, read_folder
from ragtune.superprompt.options import write_options
from ragtune.superprompt.page.session import (
    CONFIG_VARIABLE,
    CORPUS_VARIABLE,
    FILE_MIB,
    FIRST,
    PageSession,
    read_uploads,
)
from ragtune.superprompt.stages.base import ORDER, next_stage
from ragtune.superprompt.super_prompt import VIEWS

# The demo collection answers this prompt. A string below it as its docstring would be drawn on the page.
EXAMPLE = """## Task
Explain why my sourdough bread comes out dense, and what to change first.

## Context
I bake with wholemeal flour. The starter needs ten hours to double.

## Format
A short list, the most likely cause first.
"""

_HEIGHT = 330
_CONVERSATION = "User: My starter is called Bob.\nAssistant: A lively starter doubles within six hours."
_SETTINGS = """reranker: {kind: budgeted, budget: 30}
llm: {model: MODEL, base_url: http://localhost:11434/v1}
limits: {N3_FINAL_SELECTION_MAX: 12}
"""
_MARKUP = re.compile(r"([\\`*_{}\[\]()<>#+\-.!|~$:&@/])")
_read_once = st.cache_resource(show_spinner=False)(read_folder)
_LABELS = {"retrieval": "Retrieval", "reranked": "ReRanker", "a3": "A3 NLI Gate", "a4": "A4 Condenser"}


def main() -> None:
    """Draw the page once, as Streamlit does after every click."""
    st.set_page_config(page_title="SuperPrompt", layout="wide")
    if "session" not in st.session_state:
        st.session_state["prompt"] = EXAMPLE
        st.session_state["session"] = PageSession(EXAMPLE)
    session: PageSession = st.session_state["session"]
    with st.sidebar:
        documents, settings = st.container(), st.container()
        with settings:
            _draw_settings(session)
        with documents:
            _draw_documents(session)
    st.header("SuperPrompt", anchor=False)
    left, right = st.columns(2, gap="medium")
    with left:
        st.caption("Your prompt, with headers or without")
        session.prompt = st.text_area(
            "Your prompt", key="prompt", height=_HEIGHT, placeholder="## Task ...", label_visibility="collapsed"
        )
        _draw_conversation(session)
    _draw_stages(session)
    with right:
        st.caption("Super-Prompt, final" if session.has_run(ORDER[-1]) else "Super-Prompt")
        with st.container(key="super_prompt"):
            st.code(session.sp.prompt_ready, language=None, wrap_lines=True, height=_HEIGHT)
    for problem in filter(None, [*session.input_problems.values(), session.problem]):
        st.error(_plain(problem), icon=":material/error:")
    if session.stale:
        st.warning(_sentence(session.stale), icon=":material/edit:")
    for notice in session.sp.extras.get("notices", []):
        st.info(_sentence(notice["message"]), icon=":material/info:")
    if session.answer is not None:
        st.subheader("Answer", anchor=False)
        st.code(session.answer, language=None, wrap_lines=True)
    _draw_results(session)


def _draw_stages(session: PageSession) -> None:
    turn = FIRST if session.stale else next_stage(session.sp)
    clicked = None
    row = st.container(horizontal=True, gap="small")
    for name in ORDER:
        is_done = session.has_run(name) and not session.stale
        if row.button(
            f"✓ {_title(name)}" if is_done else _title(name),
            key=f"stage_{name}",
            type="primary" if name == turn and not is_done else "secondary",
            disabled=not session.can_run(name),
            width=170,  # pixels: two stages in a row on a phone, four or more on a screen
        ):
            clicked = name
    row = st.container(horizontal=True, gap="small", vertical_alignment="center")
    is_auto = row.button("Auto", key="auto", disabled=not session.can_run(FIRST))
    is_asking = row.button("Answer", key="answer", disabled=not session.can_ask)
    llm = session.options.llm
    row.caption(f"Language model: {_plain(llm.model)} ({llm.mode})." if llm.model else "No language model.")
    if not (is_auto or is_asking or clicked):
        return
    with st.spinner(f"{_title(clicked or ('Auto' if is_auto else 'Answer'))} ..."):
        if clicked is not None:
            session.run(clicked)
        if is_auto:
            session.run_all()
        if is_asking or (is_auto and session.problem is None and session.can_ask):
            session.ask()
    st.rerun()


def _title(name: str) -> str:
    return name.replace("_", " ")


def _sentence(message: str) -> str:
    return _plain(f"{message[:1].upper()}{message[1:]}.")


def _plain(text: str) -> str:
    """``text`` on one line with Markdown escaped, so quoted text cannot make the browser fetch a URL."""
    return _MARKUP.sub(r"\\\1", " ".join(text.split()))


def _draw_documents(session: PageSession) -> None:
    st.subheader("Documents", anchor=False)
    memory = session.options.memory
    folder = os.environ.get(CORPUS_VARIABLE) or memory.folder
    sets: list[Documents] = []
    if folder or memory.collection is None:
        path = Path(folder or demo_folder())
        shipped = _read_once(str(path))
        if st.checkbox(f"{_plain(path.name)}: {len(shipped):,} documents", value=True, key="use_shipped"):
            sets.append(shipped)
    files = st.file_uploader(
        "Add your own",
        type=[suffix[1:] for suffix in SUFFIXES],
        accept_multiple_files=True,
        key="uploads",
        help=f"Markdown or plain text in UTF-8, up to {FILE_MIB} MiB a file.",
    )
    uploads, refused = read_uploads([(file.name, file.getvalue()) for file in files])
    for line in refused:
        st.error(_plain(line))
    session.documents = (*sets, *([uploads] if uploads else []))


def _draw_conversation(session: PageSession) -> None:
    with st.expander("Recent conversation", icon=":material/forum:"):
        text = st.text_area(
            "One turn after the other: User: ..., Assistant: ...", key="conversation", placeholder=_CONVERSATION
        )
    session.set_conversation(text)


def _draw_settings(session: PageSession) -> None:
    st.subheader("Settings", anchor=False)
    if "settings" not in st.session_state and (file := os.environ.get(CONFIG_VARIABLE)):
        st.session_state["settings"] = Path(file).read_text(encoding="utf-8-sig")
    help_text = "docs/prompt-options.yaml explains them. Never type a key: api_key_env is the NAME of its variable."
    text = st.text_area("Options, as YAML", key="settings", height=220, placeholder=_SETTINGS, help=help_text)
    session.set_settings(text)
    st.download_button("Save as a file", write_options(session.options), "prompt.yaml", width="stretch")


def _draw_results(session: PageSession) -> None:
    chunks, costs, trace = st.tabs(["Chunks by stage", "Costs", "Trace"])
    sp = session.sp
    with chunks:
        if views := [view for view in VIEWS if view in sp.views_by_stage]:
            # A new key with every stage shows the newest view first; a choice stays until the next stage.
            view = st.radio(
                "View",
                views,
                index=len(views) - 1,
                format_func=_LABELS.__getitem__,
                horizontal=True,
                key=f"view_{sp.stage}",
                label_visibility="collapsed",
            )
            _draw_chunks(session, sp.views_by_stage[view])
        else:
            st.caption("Nothing yet: chunks appear with Retrieval.")
    with costs:
        st.table(session.costs)
    with trace:
        st.json(sp.extras, expanded=1)
        st.download_button("Download the SuperPrompt as JSON", sp.to_json(), "superprompt.json", on_click="ignore")


def _draw_chunks(session: PageSession, ids: Sequence[str]) -> None:
    st.caption(f"{len(ids)} chunks, best first")
    scores = {view: session.sp.extras.get(view, {}).get("scores", {}) for view in ("reranked", "retrieval")}
    for rank, chunk in enumerate(session.sp.chunks(ids), start=1):
        known = next((f"{score[chunk.id]:.3f} {view}" for view, score in scores.items() if chunk.id in score), "-")
        where = _plain(f"{chunk.source} {chunk.id}, {chunk.start}-{chunk.end}")
        st.caption(f"**{rank}** · {_plain(known)} · {where}")
        st.code(chunk.snippet, language=None, wrap_lines=True)


if __name__ == "__main__":
    main()
