"""The saved view of MLflow's list of runs: quality, cost, choices and failures, the best run first.

MLflow 3.17 keeps a saved view as the experiment's tag ``mlflow.sharedViewState.KEY``: JSON with a name, a time, and the
state of the page, which is JSON again. An address with ``viewStateShareKey=KEY`` opens it. Older versions ignore both.
"""

from __future__ import annotations

import json

KEY = "ragtune"
TAG = f"mlflow.sharedViewState.{KEY}"
TITLE = "Quality, cost and choices"
"""Name of the view in MLflow's menu *Views*."""

NOTE = "mlflow.note.content"
"""Tag with the description of an experiment or a run."""

_FIXED = {"attributes.`Run Name`": 290, "runDateAndNestInfo": 45}
"""Columns that MLflow always shows, with their widths in pixels: the second is cut to the status."""

HEADLINE = "headline"
"""Metric with the value of a run's first measure, and tag with its name: runs of one list may have several."""

_CHOSEN = {
    f"metrics.`{HEADLINE}`": 82,
    f"tags.`{HEADLINE}`": 82,
    "metrics.`charged_docs`": 108,
    "metrics.`aucc`": 82,
    "params.`budget`": 75,
    "params.`estimator`": 95,
    "params.`scheduler`": 95,
    "params.`dataset`": 90,
    "tags.`failures`": 120,
}


def address(experiment_id: str) -> str:
    """The address of the view below the address of ``mlflow ui``."""
    return f"#/experiments/{experiment_id}/runs?viewStateShareKey={KEY}&workflowType=machine_learning"


def experiment_tags(experiment_id: str) -> dict[str, str]:
    """The tags of an experiment that make the view and name it in the experiment's description."""
    widths = _FIXED | _CHOSEN
    state = {
        "selectedColumns": list(_CHOSEN),
        "columnOrder": list(widths),
        "columnWidths": widths,
        "orderByKey": f"metrics.`{HEADLINE}`",
        "orderByAsc": False,
    }
    view = {"name": TITLE, "createdAt": 0, "state": json.dumps(state)}
    note = f"[{TITLE} of the runs]({address(experiment_id)}): open this list first."
    return {TAG: json.dumps(view), NOTE: note}
