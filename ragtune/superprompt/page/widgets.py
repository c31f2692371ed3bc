"""Widgets of the page: documents, conversation and settings; tabs with the results."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import streamlit as st

from ragtune.superprompt.memory.inputs import SUFFIXES, Documents, demo_folder, read_folder
from ragtune.superprompt.options import nested, write_options
from ragtune.superprompt.page.session import CONFIG_VARIABLE, CORPUS_VARIABLE, FILE_MIB, PageSession, read_uploads
from ragtune.superprompt.super_prompt import VIEWS

_CONVERSATION = "User: My starter is called Bob.\nAssistant: A lively starter doubles within six hours."
_AS_CONFIGURED = "as configured"
_RERANKERS = (_AS_CONFIGURED, "auto", "none", "cross_encoder", "budgeted")
_FURTHER = "reranker: {budget: 30}\nlimits: {N3_FINAL_SELECTION_MAX: 12}"
_MARKUP = re.compile(r"([\\`*_{}\[\]()<>#+\-.!|~$:&@/])")
_LABELS = {"retrieval": "Retrieval", "reranked": "ReRanker", "a3": "A3 NLI Gate", "a4": "A4 Condenser"}


def plain(text: str) -> str:
    """Return ``text`` on one line with Markdown escaped, so quoted text cannot make the browser fetch a URL."""
    return _MARKUP.sub(r"\\\1", " ".join(text.split()))


def draw_documents(session: PageSession) -> None:
    """Draw the documents: the folder of the launcher, and uploads."""
    st.subheader("Documents", anchor=False)
    memory = session.options.memory
    folder = os.environ.get(CORPUS_VARIABLE) or memory.folder
    sets: list[Documents] = []
    if folder or memory.collection is None:
        path = Path(folder or demo_folder())
        shipped: Documents = _read_once(str(path))
        if st.checkbox(f"{plain(path.name)}: {len(shipped):,} documents", value=True, key="use_shipped"):
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
        st.error(plain(line))
    session.documents = (*sets, *([uploads] if uploads else []))


def draw_conversation(session: PageSession) -> None:
    """Draw the field for the recent turns."""
    with st.expander("Recent conversation", icon=":material/forum:"):
        text = st.text_area(
            "One turn after the other: User: ..., Assistant: ...", key="conversation", placeholder=_CONVERSATION
        )
    session.set_conversation(text)
    _draw_problem(session, "conversation")


def draw_settings(session: PageSession) -> None:
    """Draw the settings. They count for the next stages."""
    st.subheader("Settings", anchor=False)
    kind = st.selectbox("Reranker", _RERANKERS, key="reranker", help="auto: a cross-encoder on this machine, else LSA.")
    flat: dict[str, Any] = {} if kind == _AS_CONFIGURED else {"reranker.kind": kind}
    model = st.text_input("Language model", key="llm_model", placeholder="none: every stage follows its rule")
    if model.strip():
        base_url = st.text_input("Base URL", key="llm_base_url", placeholder="http://localhost:11434/v1")
        variable = st.text_input(
            "Variable that holds the key",
            value=session.options.llm.api_key_env,
            key="llm_key_variable",
            help="The NAME of an environment variable of this process. Never type the key itself.",
        )
        flat |= {"llm.model": model, "llm.base_url": base_url or None, "llm.api_key_env": variable}
    if "settings" not in st.session_state and (file := os.environ.get(CONFIG_VARIABLE)):
        st.session_state["settings"] = Path(file).read_text(encoding="utf-8-sig")
    text = st.text_area(
        "All other options, as YAML",
        key="settings",
        height=160,
        placeholder=_FURTHER,
        help="docs/prompt-options.yaml explains them. The fields above override them.",
    )
    session.set_settings(text, nested(flat))
    st.download_button("Save as a file", write_options(session.options), "prompt.yaml", width="stretch")
    _draw_problem(session, "settings")


def draw_results(session: PageSession) -> None:
    """Draw the tabs below the stages."""
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
        where = plain(f"{chunk.source} {chunk.id}, {chunk.start}-{chunk.end}")
        st.caption(f"**{rank}** · {plain(known)} · {where}")
        st.code(chunk.snippet, language=None, wrap_lines=True)


def _draw_problem(session: PageSession, name: str) -> None:
    if problem := session.input_problems.get(name):
        st.error(plain(problem))


@st.cache_resource(show_spinner=False)
def _read_once(folder: str) -> Documents:
    return read_folder(folder)
