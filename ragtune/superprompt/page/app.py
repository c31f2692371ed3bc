"""The script that Streamlit runs: it draws a :class:`PageSession` and tells it what was clicked. No behaviour here."""

from __future__ import annotations

import streamlit as st

from ragtune.superprompt.page.choices import draw_choices
from ragtune.superprompt.page.example import EXAMPLE
from ragtune.superprompt.page.inputs import draw_conversation, draw_documents
from ragtune.superprompt.page.plain import plain, title_of
from ragtune.superprompt.page.results import draw_results
from ragtune.superprompt.page.session import FIRST, PageSession
from ragtune.superprompt.page.tables import STYLE
from ragtune.superprompt.stages.base import ORDER, next_stage

_HEIGHT = 330
_HELP = {
    "A0_PreProcessing": "Reads your headers, fills in what is missing and allowed to be.",
    "A2_PromptShaper": "Decides role, audience, tone, depth and confidence.",
    "Retrieval": "Finds chunks of conversation and documents that are like your prompt.",
    "ReRanker": "Reads the best chunks again, together with the prompt.",
    "A3_NLI_Gate": "Keeps what helps; drops what is off the topic, double or in conflict.",
    "A4_Condenser": "Condenses what was kept and cuts it to the budget.",
    "A5_Format_Enforcer": "States the answer's format and rules.",
    "Prompt_Builder": "Puts the final prompt together, block by block.",
}


def main() -> None:
    """Draw the page once, as Streamlit does after every click."""
    st.set_page_config(page_title="SuperPrompt", layout="wide")
    st.html(STYLE)
    session = _session()
    with st.sidebar:
        documents, choices = st.container(), st.container()
        with choices:
            draw_choices(session)
        with documents:
            draw_documents(session)
    st.header("SuperPrompt", anchor=False)
    left, right = st.columns(2, gap="medium")
    with left:
        st.caption("Your prompt, with headers or without")
        session.set_prompt(
            st.text_area(
                "Your prompt", key="prompt", height=_HEIGHT, placeholder="## Task ...", label_visibility="collapsed"
            )
        )
        draw_conversation(session)
    _draw_stages(session)
    with right:
        _draw_box(session)
    _draw_messages(session)
    if session.answer is not None:
        st.subheader("Answer", anchor=False)
        st.code(session.answer, language=None, wrap_lines=True)
    draw_results(session)


def _session() -> PageSession:
    if "session" not in st.session_state:
        st.session_state["prompt"] = EXAMPLE
        st.session_state["session"] = PageSession(EXAMPLE)
    session: PageSession = st.session_state["session"]
    return session


def _draw_stages(session: PageSession) -> None:
    """Draw eight buttons in order, then Auto and Reset; a click is acted on, then the page is drawn anew."""
    turn = FIRST if session.stale else next_stage(session.sp)
    clicked = None
    columns = st.container(key="stages").columns(len(ORDER), gap="small")
    for column, name in zip(columns, ORDER, strict=True):
        is_done = session.has_run(name) and not session.stale
        if column.button(
            f"✓ {title_of(name)}" if is_done else title_of(name),
            key=f"stage_{name}",
            help=_HELP[name],
            type="primary" if name == turn and not is_done else "secondary",
            disabled=not session.can_run(name),
            width="stretch",
        ):
            clicked = name
    auto, answer, reset, note = st.columns([1, 1, 1, 5], gap="small", vertical_alignment="center")
    is_auto = auto.button(
        "Auto",
        key="auto",
        help="All eight stages, from the first; then the answer, where a language model is on.",
        icon=":material/fast_forward:",
        disabled=not session.can_run(FIRST),
        width="stretch",
    )
    is_asking = answer.button(
        "Answer",
        key="answer",
        help="Sends the final prompt to the language model.",
        icon=":material/send:",
        disabled=not session.can_ask,
        width="stretch",
    )
    is_reset = reset.button(
        "Reset",
        key="reset",
        help="Forgets what the stages did; your prompt, documents and settings stay.",
        icon=":material/restart_alt:",
        width="stretch",
    )
    note.caption(_note(session))
    if is_reset:
        session.reset()
    elif is_auto:
        _run_all(session)
    elif is_asking:
        _ask(session)
    elif clicked is not None:
        with st.spinner(f"{title_of(clicked)} ..."):
            session.run(clicked)
    else:
        return
    st.rerun()


def _run_all(session: PageSession) -> None:
    bar = st.progress(0.0, text=title_of(FIRST))
    session.run_all(lambda name: _show_progress(bar, name))
    if session.problem is None and session.can_ask:
        _ask(session)


def _ask(session: PageSession) -> None:
    with st.spinner("The language model answers ..."):
        session.ask()


def _show_progress(bar: st.delta_generator.DeltaGenerator, name: str) -> None:
    done = ORDER.index(name) + 1
    bar.progress(done / len(ORDER), text=f"{title_of(name)} done")


def _note(session: PageSession) -> str:
    llm = session.options.llm
    if llm.model is None:
        return "Language model off: A2, A3, A4 and A5 follow their documented rules."
    return f"Language model: {plain(llm.model)} ({llm.mode})."


def _draw_box(session: PageSession) -> None:
    if session.sp.stage == "raw":
        st.caption("Super-Prompt, empty until A0 has run")
    elif session.has_run(ORDER[-1]):
        st.caption("Super-Prompt, final")
    else:
        st.caption(f"Super-Prompt, as stage {session.sp.stage!r} left it")
    with st.container(key="super_prompt"):
        if session.sp.prompt_ready:
            st.code(session.sp.prompt_ready, language=None, wrap_lines=True, height=_HEIGHT)
        else:
            with st.container(height=_HEIGHT, border=True):
                st.caption("Press **A0 PreProcessing** and one stage after the other, or **Auto** for all eight.")


def _draw_messages(session: PageSession) -> None:
    if session.problem is not None:
        st.error(plain(session.problem.message), icon=":material/error:")
    if session.stale:
        st.warning(_sentence(session.stale), icon=":material/edit:")
    for message in session.notices:
        st.info(_sentence(message), icon=":material/info:")


def _sentence(message: str) -> str:
    return plain(f"{message[:1].upper()}{message[1:]}.")


if __name__ == "__main__":
    main()
