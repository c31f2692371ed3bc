"""The script that Streamlit runs: it draws a :class:`PageSession` and forwards clicks to it."""

from __future__ import annotations

import streamlit as st

from ragtune.superprompt.page.session import FIRST, PageSession
from ragtune.superprompt.page.widgets import draw_conversation, draw_documents, draw_results, draw_settings, plain
from ragtune.superprompt.stages.base import ORDER, next_stage

# The demo collection answers this prompt. A string below it as its docstring would be drawn on the page.
EXAMPLE = """## Task
Explain why my sourdough bread comes out dense, and what to change first.

## Context
I bake with wholemeal flour. The starter needs ten hours to double.

## Format
A short list, the most likely cause first.
"""

_HEIGHT = 330


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
            draw_settings(session)
        with documents:
            draw_documents(session)
    st.header("SuperPrompt", anchor=False)
    left, right = st.columns(2, gap="medium")
    with left:
        st.caption("Your prompt, with headers or without")
        session.prompt = st.text_area(
            "Your prompt", key="prompt", height=_HEIGHT, placeholder="## Task ...", label_visibility="collapsed"
        )
        draw_conversation(session)
    _draw_stages(session)
    with right:
        st.caption("Super-Prompt, final" if session.has_run(ORDER[-1]) else "Super-Prompt")
        with st.container(key="super_prompt"):
            st.code(session.sp.prompt_ready, language=None, wrap_lines=True, height=_HEIGHT)
    if session.problem is not None:
        st.error(plain(session.problem), icon=":material/error:")
    if session.stale:
        st.warning(_sentence(session.stale), icon=":material/edit:")
    for notice in session.sp.extras.get("notices", []):
        st.info(_sentence(notice["message"]), icon=":material/info:")
    if session.answer is not None:
        st.subheader("Answer", anchor=False)
        st.code(session.answer, language=None, wrap_lines=True)
    draw_results(session)


def _draw_stages(session: PageSession) -> None:
    turn = FIRST if session.stale else next_stage(session.sp)
    clicked = None
    columns = [*st.columns(len(ORDER) // 2, gap="small"), *st.columns(len(ORDER) // 2, gap="small")]
    for column, name in zip(columns, ORDER, strict=True):
        is_done = session.has_run(name) and not session.stale
        if column.button(
            f"✓ {_title(name)}" if is_done else _title(name),
            key=f"stage_{name}",
            type="primary" if name == turn and not is_done else "secondary",
            disabled=not session.can_run(name),
            width="stretch",
        ):
            clicked = name
    auto, answer, note = st.columns([1, 1, 6], gap="small", vertical_alignment="center")
    is_auto = auto.button("Auto", key="auto", disabled=not session.can_run(FIRST), width="stretch")
    is_asking = answer.button("Answer", key="answer", disabled=not session.can_ask, width="stretch")
    llm = session.options.llm
    note.caption(f"Language model: {plain(llm.model)} ({llm.mode})." if llm.model else "No language model.")
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
    return plain(f"{message[:1].upper()}{message[1:]}.")


if __name__ == "__main__":
    main()
