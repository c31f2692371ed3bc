"""Widgets for documents, conversation and settings."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import streamlit as st

from ragtune.superprompt.memory.inputs import SUFFIXES, DocumentSet, demo_folder, read_folder
from ragtune.superprompt.options import nested, write_options
from ragtune.superprompt.page.session import CONFIG_VARIABLE, CORPUS_VARIABLE, FILE_MIB, PageSession, read_uploads

_CONVERSATION = "User: My starter is called Bob.\nAssistant: A lively starter doubles within six hours."
_AS_CONFIGURED = "as configured"
_RERANKERS = (_AS_CONFIGURED, "auto", "none", "cross_encoder", "budgeted")
_FURTHER = "reranker: {budget: 30}\nlimits: {N3_FINAL_SELECTION_MAX: 12}"
_MARKUP = re.compile(r"([\\`*_{}\[\]()<>#+\-.!|~$:&@/])")


def plain(text: str) -> str:
    """Return ``text`` on one line with Markdown escaped, so quoted text cannot make the browser fetch a URL."""
    return _MARKUP.sub(r"\\\1", " ".join(text.split()))


def draw_documents(session: PageSession) -> None:
    """Draw the documents: the folder of the launcher, and uploads."""
    st.subheader("Documents", anchor=False)
    memory = session.options.memory
    folder = os.environ.get(CORPUS_VARIABLE) or memory.folder
    sets: list[DocumentSet] = []
    if folder or memory.collection is None:
        shipped: DocumentSet = _read_once(str(folder or demo_folder()))
        if st.checkbox(f"{plain(shipped.label)}: {len(shipped):,} documents", value=True, key="use_shipped"):
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
    if len(uploads):
        sets.append(uploads)
    session.set_documents(*sets)
    if not sets:
        rest = "the conversation is" if memory.collection is None else "collection and conversation are"
        st.caption(f"No documents: only {rest} searched.")


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
    st.download_button(
        "Save as a file",
        write_options(session.options),
        "prompt.yaml",
        key="save_config",
        icon=":material/download:",
        width="stretch",
    )
    _draw_problem(session, "settings")


def _draw_problem(session: PageSession, name: str) -> None:
    if problem := session.input_problems.get(name):
        st.error(plain(problem))


@st.cache_resource(show_spinner=False)
def _read_once(folder: str) -> DocumentSet:
    return read_folder(folder)
