"""The widgets for what a person gives: documents, conversation, settings."""

from __future__ import annotations

import os

import streamlit as st

from ragtune.adapters.page.documents import (
    MIB,
    SUFFIXES,
    DocumentSet,
    UploadLimits,
    demo_folder,
    read_folder,
    read_uploads,
)
from ragtune.adapters.page.plain import plain
from ragtune.adapters.page.session import PageSession
from ragtune.adapters.page.settings import DEFAULT_BUDGET, KEY_VARIABLE, RERANKERS, LLMSettings, Settings
from ragtune.llm.client import MODES
from ragtune.superprompt import PipelineConfig
from ragtune.superprompt.reranking.top import CROSS_ENCODER

CORPUS_VARIABLE = "RAGTUNE_PAGE_CORPUS"
"""Folder of the documents that the page opens with; the launcher sets it."""

_RERANKER_LABELS = {
    "none": "none (Retrieval's order)",
    "cross_encoder": "cross-encoder, the top N2",
    "budgeted": "cross-encoder, budgeted",
}
_LIMIT_HELP = {
    "N0_QUERY_PIECES": "Pieces that the query is cut into.",
    "N1_RETR_MAX_CANDIDATES": "Chunks that Retrieval keeps.",
    "N2_RERANK_TOP_K": "Chunks that the ReRanker may see.",
    "N3_FINAL_SELECTION_MAX": "Chunks in the final prompt.",
    "N4_RECENT_CONV_MAX_PAIRS": "Turn pairs in the final prompt; 0 leaves them out.",
}
_CONVERSATION = "User: My starter is called Bob.\nAssistant: A lively starter doubles within six hours."


def draw_documents(session: PageSession) -> None:
    """Draw what is searched: the folder that the page was started with, and uploads."""
    st.subheader("Documents", anchor=False)
    shipped = _shipped()
    sets: list[DocumentSet] = []
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
        st.caption("No documents: only the conversation is searched.")


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


def draw_settings(session: PageSession) -> None:
    """Draw reranker, language model and limits, which count for the stages that are run from then on."""
    reranker, model, docs = _draw_reranker()
    llm = _draw_llm()
    session.set_settings(
        Settings(limits=_draw_limits(), llm=llm, reranker=reranker, reranker_model=model, budget_docs=docs)
    )
    problem = session.input_problems.get("settings")
    if problem:
        st.error(plain(problem.message))


def _draw_reranker() -> tuple[str, str, int]:
    st.subheader("Reranker", anchor=False)
    kind = st.selectbox("Rerank stage", RERANKERS, format_func=_RERANKER_LABELS.__getitem__, key="reranker")
    model = st.text_input(
        "Cross-encoder: folder or hub name",
        CROSS_ENCODER,
        key="reranker_model",
        disabled=kind == "none",
        help="A hub name that is not on this machine is downloaded when ReRanker first runs.",
    )
    docs = st.number_input(
        "Budget: chunks it may read", 1, 1000, DEFAULT_BUDGET, key="budget_docs", disabled=kind != "budgeted"
    )
    return kind, model, int(docs)


def _draw_llm() -> LLMSettings | None:
    st.subheader("Language model", anchor=False)
    is_on = st.toggle("Ask a language model", key="llm_on", help="Off: every stage follows its documented rule.")
    with st.expander("Server", expanded=is_on):
        model = st.text_input("Model", "gpt-4.1-mini", key="llm_model", disabled=not is_on)
        base_url = st.text_input(
            "Base URL", key="llm_base_url", disabled=not is_on, placeholder="http://localhost:11434/v1"
        )
        variable = st.text_input(
            "Variable that holds the key",
            KEY_VARIABLE,
            key="llm_key_variable",
            disabled=not is_on,
            help="The NAME of an environment variable of this process. The key itself is never typed here.",
        )
        mode = st.selectbox("Answers", MODES, index=MODES.index("record"), key="llm_mode", disabled=not is_on)
    return LLMSettings(model, base_url or None, variable, mode) if is_on else None


def _draw_limits() -> dict[str, int | float]:
    defaults = PipelineConfig.load().limits.model_dump(by_alias=True)
    with st.expander("Limits", icon=":material/tune:"):
        return {
            name: int(
                st.number_input(
                    name, min_value=0 if name.startswith("N4") else 1, value=defaults[name], key=name, help=text
                )
            )
            for name, text in _LIMIT_HELP.items()
        }


def _shipped() -> DocumentSet:
    return _read_once(os.environ.get(CORPUS_VARIABLE) or str(demo_folder()))


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
