"""The widgets for what a person gives: documents and conversation."""

from __future__ import annotations

import os

import streamlit as st

from ragtune.superprompt.memory.folders import SUFFIXES, DocumentSet, demo_folder, read_folder
from ragtune.superprompt.page.documents import MIB, UploadLimits, read_uploads
from ragtune.superprompt.page.plain import plain
from ragtune.superprompt.page.session import PageSession

CORPUS_VARIABLE = "RAGTUNE_PAGE_CORPUS"
"""Folder of the documents that the page opens with; the launcher sets it."""

_CONVERSATION = "User: My starter is called Bob.\nAssistant: A lively starter doubles within six hours."


def draw_documents(session: PageSession) -> None:
    """Draw what is searched: the folder that the page was started with, and uploads."""
    st.subheader("Documents", anchor=False)
    folder = os.environ.get(CORPUS_VARIABLE) or session.options.memory.folder
    sets: list[DocumentSet] = []
    if folder or session.options.memory.collection is None:
        shipped: DocumentSet = _read_once(str(folder or demo_folder()))
        if st.checkbox(f"{plain(shipped.label)}: {len(shipped):,} documents", value=True, key="use_shipped"):
            sets.append(shipped)
    limits = UploadLimits()
    files = st.file_uploader(
        "Add your own",
        type=[suffix[1:] for suffix in SUFFIXES],
        accept_multiple_files=True,
        key="uploads",
        help=f"Markdown or plain text in UTF-8, up to {limits.file_bytes // MIB} MiB a file, {limits.files} files.",
    )
    uploads, refused = _read([(file.file_id, file.name, file.getvalue()) for file in files])
    for line in refused:
        st.error(plain(line))
    if len(uploads):
        sets.append(uploads)
    session.set_documents(*sets)
    if not sets:
        rest = "the conversation is" if session.options.memory.collection is None else "collection and conversation are"
        st.caption(f"No documents: only {rest} searched.")


def draw_conversation(session: PageSession) -> None:
    """Draw the field for the recent turns."""
    with st.expander("Recent conversation", icon=":material/forum:"):
        text = st.text_area(
            "One turn after the other: User: ..., Assistant: ...", key="conversation", placeholder=_CONVERSATION
        )
    session.set_conversation(text)
    problem = session.input_problems.get("conversation")
    if problem:
        st.error(plain(problem.message))


@st.cache_resource(show_spinner=False)
def _read_once(folder: str) -> DocumentSet:
    return read_folder(folder)


def _read(files: list[tuple[str, str, bytes]]) -> tuple[DocumentSet, list[str]]:
    """The same objects as long as the files are the same, so that nothing looks changed from one click to the next."""
    key = tuple(file_id for file_id, _, _ in files)
    known = st.session_state.get("read_uploads")
    if known is None or known[0] != key:
        known = (key, read_uploads([(name, data) for _, name, data in files]))
        st.session_state["read_uploads"] = known
    result: tuple[DocumentSet, list[str]] = known[1]
    return result
