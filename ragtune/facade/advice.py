"""What ``ragtune advise`` has written, as options of a reranker."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import BaseModel

from ragtune.core.errors import ConfigError
from ragtune.data.files.textfile import read_json
from ragtune.estimators.interpolation import InterpolationEstimator
from ragtune.facade.policies import Policy
from ragtune.schedulers.one_shot import OneShotScheduler


class _Option(BaseModel):
    policy: str
    batch_size: int | None
    budget: int
    trust: float | None = None
    weight: float | None = None


def advised(file: str | Path) -> dict[str, Any]:
    """The options of BudgetedReranker that an ``advice.json`` of ``ragtune advise`` recommends.

    They are ``docs``, ``policy`` (a name, or interpolated fixed depth with the advised weight), ``batch_size`` and,
    where the policy has one, ``trust``:
    ``BudgetedReranker(model, **advised("advice.json"))``.

    Raises:
        ConfigError: if the file cannot be read or is no advice, or if it advises not to rerank.

    Examples:
        >>> from pathlib import Path
        >>> from tempfile import TemporaryDirectory
        >>> from ragtune.facade.advice import advised
        >>> with TemporaryDirectory() as folder:
        ...     file = Path(folder) / "advice.json"
        ...     _ = file.write_text('{"recommended": {"policy": "uncertainty", "batch_size": 5, "budget": 20}}')
        ...     advised(file)["docs"]
        20
    """
    try:
        option = _Option.model_validate(read_json(Path(file).read_bytes())["recommended"])
    except (OSError, ValueError, TypeError, KeyError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not what ragtune advise writes"
        raise ConfigError(f"advice {str(file)!r} cannot be used: {reason}") from None
    if not option.budget:
        raise ConfigError(f"advice {str(file)!r} is not to rerank: keep the first stage's order")
    policy: str | Policy = option.policy
    if option.weight is not None:
        policy = Policy(InterpolationEstimator(option.weight), OneShotScheduler())
    trust = {} if option.trust is None else {"trust": option.trust}
    return {"docs": option.budget, "policy": policy, "batch_size": option.batch_size or option.budget, **trust}
