"""How runs present themselves in MLflow: names, parameters, metrics, a few lines on what was found, and their list."""

from __future__ import annotations

import getpass
import json
import re
import shlex
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import yaml

from experiments.config.options import choices_of, leaf
from experiments.config.paths import CONF, PROJECT_ROOT
from experiments.evaluate.summary import Summary
from experiments.publish.files import COST_COLUMNS, read_csv
from ragtune.core.units import LIMITS

NOTE = "mlflow.note.content"

HEADLINE = "headline"
"""Metric with the value of a run's first measure, and tag with its name: runs of one list may have several."""

MAX_TAG_LENGTH = 5000

_WORDING = ("_target_", "_partial_", "_convert_", "_recursive_")
"""Hydra's own keys, which say how an option is read."""

_TUNED = ("estimator", "scheduler", "acquisition", "vectors", "expander", "fusion", "retrieval")
"""Groups whose single options make a policy another one, though it keeps its name."""


def run_name(summary: Summary, config: Mapping[str, Any], varies: Sequence[str] = ()) -> str:
    """The name of a run: policy, budget, every choice that its sweep varies, options of the policy, and collection."""
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
        if _limits(file) == budget:
            return file.stem
    limits = [f"{budget[key]:g} {unit}" for unit, key in LIMITS.items() if budget.get(key) is not None]
    return " ".join(limits) or "unlimited"


_limits = cache(lambda file: yaml.safe_load(file.read_text(encoding="utf-8")))


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
    """The tags of a run, MLflow's own fields for code and user among them; MLflow shows them in this order."""
    odd = "; ".join(f"{count} {what}" for what, count in summary.warnings.items())[:MAX_TAG_LENGTH]
    found = {
        "finding": _finding(summary),
        "policy": summary.policy,
        "budget": budget_name(config.get("budget", {})),
        "dataset": summary.dataset,
        "failures": failures(summary),
        **({"warnings": odd} if odd else {}),
        HEADLINE: next(iter(summary.measures)),
        "command": shlex.join(["python", "run.py", *summary.overrides]),
        **_source("run.py", summary.tags.get("git_sha", "unknown")),
    }
    return found | {name: value for name, value in summary.tags.items() if name not in found}


def _source(program: str, sha: str) -> dict[str, str]:
    found = {"mlflow.source.type": "LOCAL", "mlflow.source.name": program}
    if sha != "unknown":
        found["mlflow.source.git.commit"] = sha.removesuffix("-dirty")
    with suppress(KeyError, OSError):  # a container's user often has no name
        found["mlflow.user"] = getpass.getuser()
    return found


def _finding(summary: Summary) -> str:
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
    program, *rest = words
    return {"sweep": "true", "command": shlex.join(["python", program, *rest]), **_source(program, git_sha())}


def description(summary: Summary, run_id: str) -> str:
    """What a run found, in Markdown: the finding, a table with it and what it is compared with, and the curve."""
    names = list(summary.measures)
    figures = []
    for name, value in summary.measures.items():
        low, high = summary.interval.get(name, (value, value))
        figures.append(f"{value:.4f} [{low:.3f}, {high:.3f}]")
    rows = [[f"**{summary.policy}**", f"{summary.cost_per_query.charged['docs']:.1f}", *figures]]
    if summary.first_stage:
        rows.append(["first stage", "0.0", *map("{:.4f}".format, summary.first_stage.values())])
    for baseline, against in (summary.baselines or {}).items():
        means = (f"{against.measures[name]:.4f} ({against.difference[name]:+.4f})" for name in names)
        rows.append([baseline, f"{against.docs_per_query:.1f}", *means])
    lost = failures(summary).replace("\n", " ")
    parts = [
        f"**{_finding(summary)}**" + ("" if lost == "none" else f" Failures and warnings: {lost}."),
        markdown_table(["", "documents a query", *names], rows),
        f"{summary.queries} queries of {summary.dataset}; 95% intervals; in brackets the run's difference.",
        f"![curve.png, an artifact](get-artifact?path=curve.png&run_uuid={run_id})",
    ]
    return "\n\n".join(parts)


def markdown_table(heads: Sequence[str], rows: Sequence[Sequence[str]], align: str = "") -> str:
    """A table in Markdown; ``align`` has an l or r a column, by default the first one is left and the others right."""
    kinds = ["---" if kind == "l" else "---:" for kind in align or "l" + "r" * (len(heads) - 1)]
    head, *body = (" | ".join(cell.replace("|", "\\|") for cell in line) for line in (heads, *rows))
    return "\n".join([f"| {head} |", f"|{'|'.join(kinds)}|", *(f"| {line} |" for line in body)])


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
    for name in ("aucc", "docs_to_95pct", "docs_to_99pct", "tied_share", "wall_s"):
        if (value := getattr(summary, name)) is not None:
            final[name] = value
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


TITLE = "Quality, cost and choices"

_FIXED = {"attributes.`Run Name`": 290, "runDateAndNestInfo": 45}
"""Columns that MLflow always shows, with their widths in pixels: the second is cut to the status."""

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
    return f"#/experiments/{experiment_id}/runs?viewStateShareKey=ragtune&workflowType=machine_learning"


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
    return {"mlflow.sharedViewState.ragtune": json.dumps(view), NOTE: note}
