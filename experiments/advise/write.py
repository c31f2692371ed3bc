"""Writes the advice: a page, plain data, and a configuration for ragtune run."""

from __future__ import annotations

import json
from pathlib import Path

from experiments.advise import words
from experiments.advise.advice import Advice
from experiments.publish.files import write_text
from experiments.report.report import STYLE, Trusted

PAGE = Path(__file__).with_name("page.html")
PRESET = "experiment/advice.yaml"


def write_advice(advice: Advice, folder: Path) -> None:
    """Write ``advice.html``, ``advice.json`` and ``experiment/advice.yaml``."""
    files = {
        "advice.html": html(advice),
        "advice.json": json.dumps(advice.model_dump(mode="json"), indent=1) + "\n",
        PRESET: advice.use["preset"],
    }
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        write_text(folder / name, text)


def html(advice: Advice) -> str:
    """The page, which needs no other file and no network."""
    from jinja2 import Environment

    from experiments.advise.figure import svg

    template = Environment(autoescape=True).from_string(PAGE.read_text(encoding="utf-8"))
    style = STYLE.read_text(encoding="utf-8")
    return template.render(a=advice, w=words, style=Trusted(style), figure=svg(advice))
