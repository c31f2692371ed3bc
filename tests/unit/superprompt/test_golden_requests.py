"""144 natural prompts and how a person takes them apart: at least 95% must come out so.

30, of kinds that the first 100 lack, are of 60 that were written before their writer had read the parser: 53 of the 60
came out right at once, 59 after what was systematic had been mended; those that did not are all among them. The last 14
are what a second such set of 40 taught: 35 right at once, 38 after mending (two expectations had been wrong).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ragtune.core.errors import StageError
from ragtune.superprompt import PipelineConfig, SuperPrompt
from ragtune.superprompt.stages.a0_preprocessing import A0PreProcessing

GOLDEN = json.loads((Path(__file__).parent / "golden" / "requests.json").read_text(encoding="utf-8"))


def taken_apart(prompt: str) -> dict[str, Any]:
    config = PipelineConfig.load()
    try:
        sp = A0PreProcessing()(SuperPrompt.raw(prompt), config)
    except StageError as error:
        return {"refused": str(error)}
    defaults = sp.extras["defaults_used"]
    body = {key: text for key, text in sp.body.items() if text and key not in defaults}
    return {"body": body, "unknown": sp.extras["unknown_attributes"]}


def test_natural_prompts_are_taken_apart_as_a_person_would() -> None:
    assert (len(GOLDEN), sum(row.get("held_out", False) for row in GOLDEN)) == (144, 30)
    got = [taken_apart(row["prompt"]) for row in GOLDEN]
    wanted = [{"body": row["body"], "unknown": row.get("unknown", {})} for row in GOLDEN]
    wrong = [(row["prompt"], one) for row, one, other in zip(GOLDEN, got, wanted, strict=True) if one != other]
    assert len(wrong) <= 0.05 * len(GOLDEN), wrong
    noted = {row["prompt"] for row in GOLDEN if "noted" in row}
    assert {prompt for prompt, _ in wrong} == noted, wrong
