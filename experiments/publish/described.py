"""How a run presents itself in MLflow: its name, its parameters, its metrics, and a few lines on what it found."""

from __future__ import annotations

import getpass
import json
import re
import shlex
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml

from experiments.config.options import choices_of, leaf
from experiments.config.paths import CONF, PROJECT_ROOT
from experiments.evaluate.summary import Summary
from experiments.publish.columns import read_csv
from experiments.publish.files import COST_COLUMNS
from experiments.publish.trackstore import HEADLINE
from ragtune.core.units import LIMITS

MAX_TAG_LENGTH = 5000
"""MLflow's limit for the value of a tag."""

_WORDING = ("_target_", "_partial_", "_convert_", "_recursive_")
"""Hydra's own keys, which say how an option is read."""


_FIRST_TAGS = ("finding", "policy", "budget", "dataset", "failures", "warnings")
_LAST_TAGS = ("ragtune_version", "git_sha")
"""Tags that MLflow's page of a run shows first and last: it shows them in the order in which they are logged."""

_TUNED = ("estimator", "scheduler", "acquisition", "vectors", "expander", "fusion", "retrieval")
"""Groups whose single options make a policy another one, though it keeps its name."""


def run_name(summary: Summary, config: Mapping[str, Any], varies: Sequence[str] = ()) -> str:
    """The name of a run: policy, budget, every choice that its sweep varies, options of the policy, and collection.

    MLflow's list cuts long names at the end, so the collection, which has a column, stands there.
    """
    varied = [
        f"{key.rpartition('.')[2]}={value}"
        for key, value in choices_of(summary.overrides).items()
        if key in varies and not _is_named(key, value, summary.policy)
    ]
    budget = budget_name(config.get("budget", {}))
    return ", ".join(dict.fromkeys([summary.policy, budget, *varied, *_tuned(summary.overrides), summary.dataset]))


def _is_named(key: str, value: str, policy: str) -> bool:
    """Whether each name has it already: the budget, the collection, or a component that the policy is called by."""
    return key == "dataset" or key.startswith("budget") or ("." not in key and value in re.split(r"[^\w-]+", policy))


def policy_title(summary: Summary) -> str:
    """The name of a run's policy, with the options of it that were set."""
    return ", ".join([summary.policy, *_tuned(summary.overrides)])


def _tuned(overrides: Sequence[str]) -> Iterator[str]:
    for override in overrides:
        name, _, value = override.lstrip("+").partition("=")
        group, *rest = re.split(r"[.@]", name)
        if group in _TUNED and rest:
            yield f"{group if '@' in name else rest[-1]}={value}"


def budget_name(budget: Mapping[str, Any]) -> str:
    """The name of the file in conf/budget that has these limits, else the limits."""
    for file in sorted((CONF / "budget").glob("*.yaml")):
        if yaml.safe_load(file.read_text(encoding="utf-8")) == budget:
            return file.stem
    limits = [f"{budget[key]:g} {unit}" for unit, key in LIMITS.items() if budget.get(key) is not None]
    return " ".join(limits) or "unlimited"


def params(config: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters of a run: each group by its choice, each option that is set by its full name."""
    about_runs = ("tracking", "executor")  # where it is, and where it ran, changes no result
    config = {key: value for key, value in config.items() if key not in about_runs}
    chosen = {group: leaf(config, group) for group, node in config.items() if _is_component(node)}
    if "budget" in chosen:
        chosen["budget"] = budget_name(config["budget"])
    if "dataset" in chosen and "path" in config["dataset"]:  # the same class reads the folders of all collections
        chosen["dataset"] = Path(str(config["dataset"]["path"])).name
    return chosen | {name: value for name, value in _flatten(config) if value is not None}


def _is_component(node: Any) -> bool:
    return isinstance(node, Mapping) and isinstance(node.get("_target_"), str) and node["_target_"].count(".") > 1


def _flatten(node: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in node.items():
        if key in _WORDING:
            continue
        if isinstance(value, Mapping) and value:
            if prefix and _is_component(value):
                yield f"{prefix}{key}", leaf(node, key)
            yield from _flatten(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def tags(summary: Summary, config: Mapping[str, Any]) -> dict[str, str]:
    """The tags of a run in the order to log them in, MLflow's own fields for code and user among them."""
    sha = summary.tags.get("git_sha", "unknown").removesuffix("-dirty")
    own = {
        "mlflow.source.type": "LOCAL",
        "mlflow.source.name": "run.py",
        "command": shlex.join(["python", "run.py", *summary.overrides]),
        "finding": _short_finding(summary),
        HEADLINE: next(iter(summary.measures)),
        "policy": summary.policy,
        "failures": failures(summary),
        "budget": budget_name(config.get("budget", {})),
        **({"mlflow.source.git.commit": sha} if sha != "unknown" else {}),
        **_user(),
    }
    odd = "; ".join(f"{count} {what}" for what, count in summary.warnings.items())
    own |= {"warnings": odd[:MAX_TAG_LENGTH]} if odd else {}
    found = {**summary.tags, **own}
    others = [name for name in found if name not in (*_FIRST_TAGS, *_LAST_TAGS)]
    return {name: found[name] for name in (*_FIRST_TAGS, *others, *_LAST_TAGS) if name in found}


def _short_finding(summary: Summary) -> str:
    """The headline measure, its cost and the difference from each baseline, in as few characters as say it."""
    name, value = next(iter(summary.measures.items()))
    said = [f"{name} {value:.3f}", f"{summary.cost_per_query.charged['docs']:.1f} docs"]
    said += [f"{against.difference[name]:+.3f} vs {other}" for other, against in (summary.baselines or {}).items()]
    return ", ".join(said)


def failures(summary: Summary) -> str:
    """What failed in a run, in words; ``none`` if nothing did."""
    failed = summary.failures
    found = [f"{failed.batches_failed} of {failed.batches_sent} batches failed"] if failed.batches_failed else []
    found += [f"{failed.queries_given_up} queries given up"] if failed.queries_given_up else []
    found += [f"{failed.went_on[name]} queries went on without {name}" for name in failed.went_on]
    found += [f"{summary.dropped_docs} documents without a score"] if summary.dropped_docs else []
    found += [f"first error: {failed.first_error}"] if failed.first_error else []
    return "; ".join([*found, *(f"{count} {what}" for what, count in summary.warnings.items())]) or "none"


def sweep_tags(words: Sequence[str]) -> dict[str, str]:
    """The tags of the parent run of a sweep."""
    program = words[0]
    sha = git_sha().removesuffix("-dirty")
    own = {"mlflow.source.type": "LOCAL", "mlflow.source.name": program, **_user()}
    own |= {"mlflow.source.git.commit": sha} if sha != "unknown" else {}
    return {"sweep": "true", "command": shlex.join(["python", program, *words[1:]]), **own}


def _user() -> dict[str, str]:
    try:
        return {"mlflow.user": getpass.getuser()}
    except (KeyError, OSError):  # a container's user often has no name
        return {}


def description(summary: Summary, run_id: str) -> str:
    """What a run found, in Markdown: one sentence, a table with it and what it is compared with, and the curve.

    MLflow shows no picture that is part of the text, but one that its own server has: the artifact, by an address that
    is relative to whatever address the server is open at.
    """
    names = list(summary.measures)
    heads = ["", "documents a query", *names]
    figures = [f"{value:.4f} [{low:.3f}, {high:.3f}]" for value, (low, high) in _with_interval(summary)]
    rows = [[f"**{summary.policy}**", f"{summary.cost_per_query.charged['docs']:.1f}", *figures]]
    if summary.first_stage:
        rows.append(["first stage", "0.0", *map("{:.4f}".format, summary.first_stage.values())])
    for baseline, against in (summary.baselines or {}).items():
        means = (f"{against.measures[name]:.4f} ({against.difference[name]:+.4f})" for name in names)
        rows.append([baseline, f"{against.docs_per_query:.1f}", *means])
    said = f"{summary.queries} queries of {summary.dataset}; 95% intervals; in brackets the run's difference."
    picture = f"![curve.png, an artifact](get-artifact?path=curve.png&run_uuid={run_id})"
    return f"{_finding(summary)}\n\n{markdown_table(heads, rows)}\n\n{said}\n\n{picture}"


def _finding(summary: Summary) -> str:
    """The headline measure, its cost, the first stage, the differences from fixed depth and others, and failures."""
    name, value = next(iter(summary.measures.items()))
    docs = summary.cost_per_query.charged["docs"]
    said = f"**{name} {value:.4f} with {docs:.1f} documents a query.**"
    if name in summary.first_stage:
        said += f" The first stage alone has {summary.first_stage[name]:.4f}."
    for baseline, against in (summary.baselines or {}).items():
        low, high = against.interval[name]
        said += f" Difference from {baseline}: {against.difference[name]:+.4f} [{low:+.3f}, {high:+.3f}]."
    lost = failures(summary)
    return said if lost == "none" else f"{said} Failures and warnings: {lost.replace(chr(10), ' ')}."


def markdown_table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table in Markdown."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def _with_interval(summary: Summary) -> Iterator[tuple[float, tuple[float, float]]]:
    for name, value in summary.measures.items():
        yield value, summary.interval.get(name, (value, value))


def metrics(summary: Summary, curve_csv: Path) -> list[Any]:
    """Measures, costs in the units that were spent, comparisons, and the curve as steps (documents reranked)."""
    from mlflow.entities import Metric

    final = {HEADLINE: summary.headline} | {allowed(name): value for name, value in summary.measures.items()}
    final |= {f"first stage/{allowed(name)}": value for name, value in summary.first_stage.items()}
    for baseline, against in (summary.baselines or {}).items():
        final |= {f"vs {baseline}/{allowed(name)}": value for name, value in against.difference.items()}
    for kind, costs in (("charged", summary.cost_per_query.charged), ("actual", summary.cost_per_query.actual)):
        final |= {f"{kind}_{unit}": value for unit, value in costs.items() if value or unit == "docs"}
    if rewrites := summary.rewrites:
        final |= {"rewrites_per_query": rewrites.per_query, "new_docs_per_rewrite": rewrites.new_docs_per_rewrite}
    single = {
        name: getattr(summary, name) for name in ("aucc", "docs_to_95pct", "docs_to_99pct", "tied_share", "wall_s")
    }
    final |= {name: value for name, value in single.items() if value is not None}
    final |= {f"matched/{allowed(join.left)} in {allowed(join.right)}": join.share for join in summary.joins}
    final |= {"failed_batches": summary.failures.batches_failed, "failed_share": summary.failures.share}
    final |= {"failed_queries": summary.failures.queries_given_up, "unscored_docs": summary.dropped_docs}
    final |= {f"failed_{name}": count for name, count in ({"reformulation": 0} | summary.failures.went_on).items()}
    final["warnings"] = sum(summary.warnings.values())
    found = [Metric(key, float(value), 0, 0) for key, value in final.items()]
    curve = read_csv(curve_csv)
    drawn = {f"curve/{allowed(name)}": name for name in summary.measures}
    drawn |= {f"cost/{name}": name for name in COST_COLUMNS if name in curve and any(curve[name])}
    for key, column in drawn.items():
        steps = zip(curve["documents"], curve[column], strict=True)
        found += [Metric(key, float(value), 0, int(step)) for step, value in steps]
    return found


def allowed(name: str) -> str:
    """The name with every character that MLflow refuses on some platform replaced by ``_``: ``nDCG_10``."""
    return re.sub(r"[^\w. /-]", "_", name)


def dataset_input(summary: Summary) -> Any:
    """The collection of a run, as MLflow notes it."""
    from mlflow.entities import Dataset, DatasetInput

    dataset = Dataset(
        name=summary.dataset,
        digest=summary.corpus_digest[:32],
        source_type="ragtune",
        source=json.dumps({"dataset": summary.dataset}),
        profile=json.dumps({"queries": summary.queries, "documents": summary.documents}),
    )
    return DatasetInput(dataset)


@lru_cache(maxsize=1)
def git_sha() -> str:
    """The commit that is checked out, with ``-dirty`` if tracked files outside results/ differ; or ``unknown``."""
    try:
        sha = _git("rev-parse", "HEAD")
        changed = _git("status", "--porcelain", "--untracked-files=no", "--", ".", ":(exclude)results")
        return f"{sha}-dirty" if changed else sha
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def _git(*arguments: str) -> str:
    if not (PROJECT_ROOT / ".git").exists():  # a wheel: the commit of a repository around it is not that of this code
        raise FileNotFoundError(PROJECT_ROOT / ".git")
    command = ["git", "--no-optional-locks", "-C", str(PROJECT_ROOT), *arguments]
    # The words are those above, there is no shell, and the git on PATH is the user's own.
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()  # noqa: S603
