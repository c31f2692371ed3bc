"""Certificates: what a budget saved and lost over a period, from shadowed requests, as JSON, a signature and a page."""

from __future__ import annotations

import hashlib
import hmac
import html
import json
import math
import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

import ragtune
from ragtune.core.arrays import FloatArray
from ragtune.core.errors import ConfigError, InputError
from ragtune.core.statistics import mean_at_most
from ragtune.services.page import html_page
from ragtune.services.shadow import read_records

LEVEL = 0.95
"""Probability of every interval and bound."""

_ALGORITHM, _SHORTEST_KEY = "hmac-sha256", 16
_SAVED = {"docs": "documents", "calls": "calls", "tokens": "tokens", "usd": "dollars"}
_FORMS = {"docs": "{:,.1f}", "calls": "{:,.2f}", "tokens": "{:,.0f}", "usd": "${:,.6f}"}
_MOST_COUNTED, _MOST_NOT_COMPARED = 10**15, 10**7  # the second counts are losses in a list
_COUNTED = {
    "requests": ("ragtune_rerank_requests_total", ""),
    "fallbacks": ("ragtune_rerank_hops_total", 'outcome="(?:failed|closed|late)"'),
    "deadline_misses": ("ragtune_rerank_deadlines_total", 'outcome="missed"'),
    "not_compared": ("ragtune_rerank_shadow_total", 'outcome="(?:failed|dropped)"'),
}
"""What a certificate takes from a saved page of ``/metrics``: a counter, and the labels that count."""


def certificate(file: Path, metrics: Path | None = None) -> dict[str, Any]:
    """The certificate of a shadow file and a saved page of ``/metrics``; it depends on them and this version alone."""
    try:
        with np.errstate(over="ignore", invalid="ignore"):  # what is not finite raises below
            return _certificate(file, metrics)
    except (OverflowError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{file}: has numbers that are too large to be added up") from None


def _certificate(file: Path, metrics: Path | None) -> dict[str, Any]:
    records, unread = read_records(file)
    counts = {} if metrics is None else _counts(metrics)
    losses = [1.0 - one.quality for one in records]
    missing = counts.get("not_compared")
    settings = Counter((one.model, one.policy, json.dumps(dict(one.budget), sort_keys=True)) for one in records)
    costs = {
        unit: np.array([(getattr(one.spent, unit), getattr(one.full, unit)) for one in records]) for unit in _SAVED
    }
    return {
        "kind": "ragtune certificate 1",
        "ragtune": ragtune.__version__,
        "level": LEVEL,
        "period": {"first": min(one.at for one in records), "last": max(one.at for one in records)},
        "requests": {"compared": len(records), "answered": counts.get("requests"), "not_compared": missing},
        "served": [
            {"model": model, "policy": policy, "budget": json.loads(budget), "compared": count}
            for (model, policy, budget), count in sorted(settings.items())
        ],
        "documents_a_request": _rounded(math.fsum(one.documents for one in records) / len(records)),
        "saved_a_request": {unit: _saving(*cost.T.astype(float)) for unit, cost in costs.items()},
        "loss": {
            "measure": "1 - nDCG@10 by the model's own scores, against reading every document",
            "mean": _rounded(math.fsum(losses) / len(losses)),
            "at_most": _rounded(mean_at_most(losses, LEVEL), up=True),
            "at_most_if_others_lost_all": _rounded(mean_at_most([*losses, *[1.0] * (missing or 0)], LEVEL), up=True),
        },
        "fallbacks": counts.get("fallbacks"),
        "deadline_misses": counts.get("deadline_misses"),
        "input": {
            "shadow_sha256": _digest(file),
            "metrics_sha256": None if metrics is None else _digest(metrics),
            "lines_left_out": unread,
        },
    }


def signed(body: Mapping[str, Any], key: bytes) -> str:
    """The certificate's file: canonical JSON of it and its signature."""
    whole = {"certificate": body, "signature": {"algorithm": _ALGORITHM, "value": _signature(body, key)}}
    return json.dumps(whole, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def verified(file: Path, key: bytes) -> dict[str, Any]:
    """The certificate in a file, if the key has signed exactly this."""
    try:
        whole = json.loads(file.read_text(encoding="utf-8"))
        body, signature = whole["certificate"], str(whole["signature"]["value"])
        is_valid = hmac.compare_digest(signature.encode(), _signature(body, key).encode())
    except OSError as error:
        raise InputError(f"{file}: cannot be read ({error.strerror})") from None
    except (ValueError, KeyError, TypeError, RecursionError):
        raise InputError(f"{file}: is no certificate of ragtune certificate") from None
    if not is_valid:
        raise InputError(f"{file}: the signature does not match: the file was changed, or signed with another key")
    found: dict[str, Any] = body
    return found


def key_in(variable: str) -> bytes:
    """The signing key in an environment variable; ConfigError below 16 bytes."""
    key = os.environ.get(variable, "").encode()
    if len(key) < _SHORTEST_KEY:
        state = f"holds {len(key)} bytes" if key else "is not set"
        raise ConfigError(
            f"${variable} {state}; allowed is a key of at least {_SHORTEST_KEY}, as openssl rand -hex 32 makes it"
        )
    return key


def page(body: Mapping[str, Any], key: bytes) -> str:
    """The certificate as one HTML page without any other file."""
    served = "; ".join(f"{one['model']}, {one['policy']}, {json.dumps(one['budget'])}" for one in body["served"])
    rows = "".join(f"<tr><th>{html.escape(name)}<td>{html.escape(value)}" for name, value in _rows(body))
    loss = body["loss"]
    found = f"""<h1>RAGtune certificate</h1>
<p>{html.escape(" to ".join(body["period"].values()))}. {html.escape(served)}.</p>
<p class="big">{body["saved_a_request"]["docs"]["mean"]:,.1f} of {body["documents_a_request"]:,.1f} documents
a request were not read. The mean loss of nDCG@10 against reading all is at most <b>{loss["at_most"]:.4f}</b>.</p>
<table>{rows}</table>
<p>The loss is by the model's own scores: it measures how far the answers are from the model's order, not how good
that order is. The bound and each interval hold with probability {body["level"]:.0%} at any time that one looks, for
a mean over requests like these (betting confidence sequence, Waudby-Smith and Ramdas 2023).</p>
<p>Input <code>{body["input"]["shadow_sha256"]}</code><br>
Signature ({_ALGORITHM}) <code>{_signature(body, key)}</code><br>
Check it: <code>ragtune certificate --verify certificate.json</code></p>"""
    return html_page("RAGtune certificate", found)


def _rows(body: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    requests, loss = body["requests"], body["loss"]
    yield "Requests compared with reading everything", f"{requests['compared']:,}"
    yield "Requests answered", _count(requests["answered"])
    yield "Requests that were selected but not compared", _count(requests["not_compared"])
    for unit, words in _SAVED.items():
        found, form = body["saved_a_request"][unit], _FORMS[unit].format
        if found["mean"]:
            yield f"Saved {words} a request", f"{form(found['mean'])} [{form(found['low'])}, {form(found['high'])}]"
    yield "Mean loss", f"{loss['mean']:.4f}"
    yield "Mean loss is at most", f"{loss['at_most']:.4f}"
    if requests["not_compared"]:
        yield "The same if requests not compared lost all", f"{loss['at_most_if_others_lost_all']:.4f}"
    yield "Fallbacks", _count(body["fallbacks"])
    yield "Deadline misses", _count(body["deadline_misses"])


def _count(count: int | None) -> str:
    return "not counted" if count is None else f"{count:,}"


def _counts(file: Path) -> dict[str, int]:
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{file}: cannot be read ({error})") from None
    found: dict[str, int] = {}
    for name, (counter, labels) in _COUNTED.items():
        if f"# TYPE {counter} " in text:
            values = re.findall(rf"^{counter}\{{.*{labels}.*\}} ([0-9.e+]+)$", text, re.MULTILINE)
            most = _MOST_NOT_COMPARED if name == "not_compared" else _MOST_COUNTED
            try:
                count = sum(map(float, values))
            except ValueError:
                count = math.inf
            if count > most:
                raise InputError(f"{file}: {counter} is no number up to {most:,}")
            found[name] = round(count)
    if not found:
        raise InputError(f"{file}: has no counter ragtune_rerank_...; curl http://HOST:PORT/metrics saves them")
    return found


def _signature(body: Mapping[str, Any], key: bytes) -> str:
    canonical = json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hmac.new(key, canonical.encode(), hashlib.sha256).hexdigest()


def _digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def _saving(spent: FloatArray, full: FloatArray) -> dict[str, float]:
    """The mean saving and its interval, for savings between the largest cost seen of an answer and of reading all."""
    least, most = -float(spent.max()), float(full.max())
    span, saved = most - least, full - spent
    level, scale = (1.0 + LEVEL) / 2.0, span or 1.0
    low = most - span * mean_at_most((most - saved) / scale, level)
    high = least + span * mean_at_most((saved - least) / scale, level)
    return {"mean": _rounded(float(saved.mean())), "low": -_rounded(-low, up=True), "high": _rounded(high, up=True)}


def _rounded(value: float, *, up: bool = False) -> float:
    """To eight digits behind the point, so that the last bits of a sum cannot change a file; bounds upwards."""
    return (math.ceil if up else round)(value * 1e8) / 1e8
