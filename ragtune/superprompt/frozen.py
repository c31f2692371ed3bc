"""The base of all configurations, and one line for what Pydantic found wrong."""

from __future__ import annotations

import json

from pydantic import BaseModel, ConfigDict, ValidationError


class Frozen(BaseModel):
    """An immutable model that refuses unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid")


def flaws_in(error: ValidationError) -> str:
    """Return every flaw with its place and the wrong value, e.g. ``limits.N0=0: Input should be ...``."""
    return "; ".join(
        f"{'.'.join(map(str, flaw['loc'])) or 'the file'}={json.dumps(flaw['input'], default=str)[:80]}: {flaw['msg']}"
        for flaw in error.errors(include_url=False, include_context=False)
    )
