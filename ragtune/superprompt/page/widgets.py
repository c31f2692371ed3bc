"""Tabs with the results: chunks by stage, final selection, costs, trace."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from ragtune.superprompt.page.widgets import plain
from ragtune.superprompt.page.session import PageSession
from ragtune.superprompt.super_prompt import VIEWS

_SHOWN = 25
_SCORED = ("reranked", "retrieval")
_LABELS = {"retrieval": "Retrieval", "reranked": "ReRanker", "a3": "A3 NLI Gate", "a4": "A4 Condenser"}


def draw_results(session: PageSession) -> None:
    """Draw the tabs below the stages."""
    chunks, selection, costs, trace = st.tabs(["Chunks by stage", "Final selection", "Costs", "Trace"])
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
            before = views[views.index(view) - 1] if views.index(view) else view
            _draw_chunks(session, sp.views_by_stage[view], sp.views_by_stage[before], f"all_{view}")
        else:
            st.caption("Nothing yet: chunks appear with Retrieval.")
    with selection:
        if sp.final_selection_ids:
            _draw_chunks(session, sp.final_selection_ids, sp.final_selection_ids, "all_selection")
        else:
            st.caption("Nothing yet: A3 selects, A4 cuts to the budget.")
    with costs:
        _draw_costs(session)
    with trace:
        st.json(sp.extras, expanded=1)
        st.download_button(
            "Download the SuperPrompt as JSON",
            sp.to_json(),
            "superprompt.json",
            mime="application/json",
            key="download",
            icon=":material/download:",
            on_click="ignore",
        )


def _draw_chunks(session: PageSession, ids: Sequence[str], before: Sequence[str], key: str) -> None:
    """Draw chunks with rank, move since the view before, score, source and text. Code blocks never render the text."""
    shown = ids
    with st.container(horizontal=True, gap="medium", vertical_alignment="center"):
        if len(ids) > _SHOWN and not st.toggle(f"Show all {len(ids)}", key=key):
            shown = ids[:_SHOWN]
        st.caption(f"{len(shown)} of {len(ids)} chunks, best first")
    scores = {view: session.sp.extras.get(view, {}).get("scores", {}) for view in _SCORED}
    for rank, chunk in enumerate(session.sp.chunks(shown), start=1):
        places = before.index(chunk.id) + 1 - rank
        move = f"▲ {places}" if places > 0 else f"▼ {-places}" if places < 0 else "="
        known = next((f"{scores[view][chunk.id]:.3f} {view}" for view in _SCORED if chunk.id in scores[view]), "-")
        where = plain(f"{chunk.source} {chunk.id}, {chunk.start}-{chunk.end}")
        st.caption(f"**{rank}** {move} · {plain(known)} · {where}")
        st.code(chunk.snippet, language=None, wrap_lines=True)


def _draw_costs(session: PageSession) -> None:
    rows = session.costs
    if not rows:
        st.caption("Nothing was spent yet.")
        return
    total = {key: sum(row[key] or 0 for row in rows) for key in rows[0] if key not in ("stage", "outcome")}
    st.table(
        [
            {
                "stage": row["stage"].replace("_", " ") + (" (failed)" if row["outcome"] == "failed" else ""),
                "ms": "" if row["ms"] is None else f"{row['ms']:,.1f}",
                "calls": row["charged_calls"],
                "documents read": row["charged_docs"],
                "tokens": row["charged_tokens"],
                "charged, usd": f"{row['charged_usd']:.4f}",
                "paid, usd": f"{row['paid_usd']:.4f}",
            }
            for row in [*rows, {"stage": "all", "outcome": "done", **total}]
        ]
    )
