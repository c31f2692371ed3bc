"""The widgets for what a person chooses about the pipeline; a configuration file fills them in."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

import streamlit as st

from ragtune.core.errors import RagtuneError
from ragtune.superprompt.options import PromptOptions
from ragtune.superprompt.options.example import example_text
from ragtune.superprompt.options.model import AGENT_STAGES, LLMOptions
from ragtune.superprompt.options.reading import make_options, nested, parse_options
from ragtune.superprompt.page.plain import plain, title_of
from ragtune.superprompt.page.session import PageSession

CONFIG_VARIABLE = "RAGTUNE_PAGE_CONFIG"
"""Configuration file that the page opens with; the launcher sets it."""

_SUGGESTED = "gpt-4.1-mini"
_RERANKERS = {
    "auto": "automatic",
    "none": "none (Retrieval's order)",
    "cross_encoder": "cross-encoder, top N2",
    "budgeted": "cross-encoder, budgeted",
}
_EMBEDDERS = {
    "auto": "automatic",
    "tfidf": "TF-IDF, no model",
    "hashing": "hashing, no model",
    "sentence_transformer": "sentence-transformer",
    "openai_compatible": "OpenAI-compatible server",
}
_LIMITS = {
    "N0_QUERY_PIECES": "Pieces that the query is cut into.",
    "N1_RETR_MAX_CANDIDATES": "Chunks that Retrieval keeps.",
    "N2_RERANK_TOP_K": "Chunks that the ReRanker may see.",
    "N3_FINAL_SELECTION_MAX": "Chunks in the final prompt.",
    "N4_RECENT_CONV_MAX_PAIRS": "Turn pairs in the final prompt; 0 leaves them out.",
}
_SWITCHES = {
    "llm_off": "A stage without a language model",
    "llm_failure": "A stage whose language model fails",
    "nothing_found": "Retrieval that finds nothing",
}
_DEFAULT, _COLLECTION = "documents", "ragd collection"


def draw_choices(session: PageSession) -> None:
    """Draw all choices, and give them to the session; they count for the stages that are run from then on."""
    above, below = st.container(), st.container()
    with below:
        # The file is read first, since it fills in the widgets above it.
        layers = _draw_file()
    _fill_in(layers)
    with above:
        flat = _draw_search() | _draw_reranker() | _draw_llm()
    with below:
        flat |= _draw_switches() | _draw_limits()
    session.set_settings(*layers, nested(flat))
    with below:
        st.download_button(
            "Save as a file",
            example_text(session.options),
            "prompt.yaml",
            key="save_config",
            icon=":material/download:",
            help="All options as they are, each with its meaning; for ragtune prompt --config too.",
            width="stretch",
        )
    problem = session.input_problems.get("settings")
    if problem:
        st.error(plain(problem.message))


def _draw_file() -> list[Mapping[str, Any]]:
    """Options of the file that the page was started with, and over them those of an upload that can be used."""
    layers: list[Mapping[str, Any]] = [_launched()]
    with st.expander("Configuration file", icon=":material/settings:"):
        file = st.file_uploader(
            "YAML or JSON",
            type=["yaml", "yml", "json"],
            key="config_file",
            help="Any of the options that the button below saves. It fills in the fields here; they stand over it.",
        )
        if file is not None:
            try:
                given = parse_options(file.getvalue().decode("utf-8-sig"), file.name)
                make_options([*layers, given], file.name)
                layers.append(given)
            except (RagtuneError, UnicodeDecodeError) as error:
                st.error(plain(str(error)))
    return layers


@st.cache_resource(show_spinner=False)
def _launched() -> dict[str, Any]:
    file = os.environ.get(CONFIG_VARIABLE)
    return parse_options(Path(file).read_text(encoding="utf-8-sig"), file) if file else {}


def _fill_in(layers: list[Mapping[str, Any]]) -> None:
    """Let the fields show what the files say, whenever these are others than before."""
    if st.session_state.get("filled_from") == layers:
        return
    st.session_state["filled_from"] = layers
    st.session_state.update(_values(make_options(layers)))


def _values(options: PromptOptions) -> dict[str, Any]:
    """What the widgets show, by their keys."""
    llm, limits = options.llm, options.limits.model_dump(by_alias=True)
    return {
        "store": _DEFAULT if options.memory.collection is None else _COLLECTION,
        "collection": options.memory.collection or "",
        "data_dir": str(options.memory.data_dir or ""),
        "embedder": options.embedder.kind,
        "embedder_model": options.embedder.model or "",
        "reranker": options.reranker.kind,
        "reranker_model": options.reranker.model,
        "budget_docs": options.reranker.budget,
        "llm_on": llm.model is not None,
        "llm_model": llm.model or _SUGGESTED,
        "llm_base_url": llm.base_url or "",
        "llm_key_variable": llm.api_key_env,
        "llm_mode": llm.mode,
        "llm_stages": list(llm.stages),
        "a2_twice": options.a2_passes == 2,
        "agents": str(options.agents or ""),
        **{name: getattr(options, name) for name in _SWITCHES},
        **{name: int(limits[name]) for name in _LIMITS},
    }


def _draw_search() -> dict[str, Any]:
    st.subheader("Search", anchor=False)
    store = st.selectbox(
        "Long-term memory",
        (_DEFAULT, _COLLECTION),
        key="store",
        help="The documents above alone, or a collection that ragd keeps in PostgreSQL and they beside it.",
    )
    collection = data_dir = None
    if store == _COLLECTION:
        st.caption("Searched together with the documents above, which stand over its own of the same name.")
        collection = st.text_input("Collection", key="collection", placeholder="its name")
        data_dir = st.text_input(
            "Folder of the embedded PostgreSQL",
            key="data_dir",
            placeholder="ragd's own",
            help="Used where RAGTUNE_DSN names no server.",
        )
    kind = st.selectbox(
        "Embedder",
        list(_EMBEDDERS),
        format_func=_EMBEDDERS.__getitem__,
        key="embedder",
        help="Automatic: TF-IDF for documents; for a collection the hashing that it was made with.",
    )
    model = None
    if kind in ("sentence_transformer", "openai_compatible"):
        model = st.text_input("Embedding model: folder or name", key="embedder_model")
    # A name that is not typed yet is no collection: the message says so.
    named = (collection or "").strip() if store == _COLLECTION else None
    # A file's filters are of its collection, and go with it.
    filters: dict[str, Any] = (
        {} if named is not None else {"memory.tags_any": [], "memory.tags_all": [], "memory.metadata": {}}
    )
    return {
        "memory.collection": named,
        "memory.data_dir": (data_dir or "").strip() or None,
        "embedder.kind": kind,
        "embedder.model": (model or "").strip() or None,
        **filters,
    }


def _draw_reranker() -> dict[str, Any]:
    st.subheader("Reranker", anchor=False)
    kind = st.selectbox(
        "Rerank stage",
        list(_RERANKERS),
        format_func=_RERANKERS.__getitem__,
        key="reranker",
        help="Automatic: the cross-encoder below over the top N2 if it is on this machine, else none.",
    )
    model = st.text_input(
        "Cross-encoder: folder or hub name",
        key="reranker_model",
        disabled=kind == "none",
        help="A hub name that is not on this machine is downloaded when ReRanker first runs.",
    )
    budget = st.number_input(
        "Budget: chunks it may read", min_value=1, max_value=1000, key="budget_docs", disabled=kind != "budgeted"
    )
    return {"reranker.kind": kind, "reranker.model": model, "reranker.budget": int(budget)}


def _draw_llm() -> dict[str, Any]:
    st.subheader("Language model", anchor=False)
    is_on = st.toggle("Ask a language model", key="llm_on", help="Off: every stage follows its documented rule.")
    with st.expander("Server", expanded=is_on):
        model = st.text_input("Model", key="llm_model", disabled=not is_on)
        base_url = st.text_input(
            "Base URL", key="llm_base_url", disabled=not is_on, placeholder="http://localhost:11434/v1"
        )
        variable = st.text_input(
            "Variable that holds the key",
            key="llm_key_variable",
            disabled=not is_on,
            help="The NAME of an environment variable of this process. The key itself is never typed here.",
        )
        mode = st.selectbox("Answers", _choices(LLMOptions, "mode"), key="llm_mode", disabled=not is_on)
        stages = st.multiselect(
            "Stages that ask", AGENT_STAGES, format_func=title_of, key="llm_stages", disabled=not is_on
        )
    if not is_on:
        return {"llm.model": None}
    return {
        "llm.model": model,
        "llm.base_url": base_url or None,
        "llm.api_key_env": variable,
        "llm.mode": mode,
        "llm.stages": tuple(stages),
    }


def _draw_switches() -> dict[str, Any]:
    with st.expander("Switches", icon=":material/toggle_on:"):
        flat: dict[str, Any] = {
            name: st.selectbox(label, _choices(PromptOptions, name), key=name) for name, label in _SWITCHES.items()
        }
        is_twice = st.toggle("A2 looks at its first answer once more", key="a2_twice")
        agents = st.text_input("Folder of your own agents", key="agents", placeholder="the packaged ones")
        st.caption("Chunking, the prompt schema and all else: in a configuration file.")
    return {**flat, "a2_passes": 2 if is_twice else 1, "agents": agents.strip() or None}


def _draw_limits() -> dict[str, Any]:
    with st.expander("Limits", icon=":material/tune:"):
        return {
            f"limits.{name}": int(
                st.number_input(name, min_value=0 if name.startswith("N4") else 1, step=1, key=name, help=text)
            )
            for name, text in _LIMITS.items()
        }


def _choices(model: type[PromptOptions | LLMOptions], name: str) -> tuple[str, ...]:
    return get_args(model.model_fields[name].annotation)
