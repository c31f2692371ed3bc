"""What came out: chunks by stage, the final selection, costs, trace."""

from __future__ import annotations

import streamlit as st

from ragtune.superprompt.page.plain import title_of
from ragtune.superprompt.page.records import ChunkRow, selection_rows, trace, view_rows
from ragtune.superprompt.page.session import PageSession
from ragtune.superprompt.page.tables import chunk_table, cost_table
from ragtune.superprompt.stages.base import ORDER
from ragtune.superprompt.super_prompt import VIEWS

_SHOWN = 25
_VIEW_LABELS = {"retrieval": "Retrieval", "reranked": "ReRanker", "a3": "A3 NLI Gate", "a4": "A4 Condenser"}


def draw_results(session: PageSession) -> None:
    """Draw the tabs below the stages."""
    chunks, selection, costs, traces = st.tabs(["Chunks by stage", "Final selection", "Costs", "Trace"])
    with chunks:
        _draw_views(session)
    with selection:
        _draw_selection(session)
    with costs:
        _draw_costs(session)
    with traces:
        _draw_trace(session)


def _draw_views(session: PageSession) -> None:
    views = [view for view in VIEWS if view in session.sp.views_by_stage]
    if not views:
        st.caption("Nothing yet: chunks appear with Retrieval.")
        return
    # A new key with every stage: the newest view is shown first, and a choice stays until the next stage.
    view = st.radio(
        "View",
        views,
        index=len(views) - 1,
        format_func=_VIEW_LABELS.__getitem__,
        horizontal=True,
        key=f"view_{session.sp.stage}",
        label_visibility="collapsed",
    )
    _draw_chunks(view_rows(session.sp, view), f"all_{view}")


def _draw_selection(session: PageSession) -> None:
    rows = selection_rows(session.sp)
    if not rows:
        st.caption("Nothing yet: A3 selects, A4 cuts to the budget.")
        return
    _draw_chunks(rows, "all_selection")


def _draw_chunks(rows: list[ChunkRow], key: str) -> None:
    shown = rows
    with st.container(horizontal=True, gap="medium", vertical_alignment="center"):
        if len(rows) > _SHOWN and not st.toggle(f"Show all {len(rows)}", key=key):
            shown = rows[:_SHOWN]
        st.caption(f"{len(shown)} of {len(rows)} chunks, best first")
    st.html(chunk_table(shown))


def _draw_costs(session: PageSession) -> None:
    rows = session.costs
    if not rows:
        st.caption("Nothing was spent yet.")
        return
    st.html(cost_table(rows))


def _draw_trace(session: PageSession) -> None:
    done = [name for name in ORDER if session.has_run(name)]
    if not done:
        st.caption("Nothing has run yet.")
        return
    for name in done:
        record = trace(session.sp, name)
        if record:
            with st.expander(title_of(name)):
                st.json(record, expanded=2)
    st.download_button(
        "Download the SuperPrompt as JSON",
        session.sp.to_json(),
        "superprompt.json",
        mime="application/json",
        key="download",
        icon=":material/download:",
        on_click="ignore",
    )
