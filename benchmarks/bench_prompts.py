"""What the prompt pipeline gives: judged prompts over documentation, and the demo.

    python benchmarks/bench_prompts.py DIRECTORY [--split tune] [--model DIR] [--show]
    python benchmarks/bench_prompts.py DIRECTORY --llm NAME --stages A2_PromptShaper A5_Format_Enforcer [--base-url URL]

``DIRECTORY`` holds the releases of ``judged_prompts.fetch``, which downloads what is missing. ``--model`` is a
cross-encoder's folder. ``--show`` prints each prompt's attachments and bullets. It is for the tuning prompts.

With ``--llm``, the language model answers for the stages that are named, and the demo is left out. Its answers are
recorded in ``--answers``. With a ``--base-url``, the server is asked for those that are missing; without one, nothing
is sent and a missing answer is an error.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

from judged_prompts import Judgments, fetch, prompts, shingles

from ragtune.superprompt.memory.documents import DocumentMemory
from ragtune.superprompt.memory.inputs import read_folder
from ragtune.superprompt.options import AGENT_STAGES, load_options
from ragtune.superprompt.parts import make_pipeline
from ragtune.superprompt.pipeline import Pipeline
from ragtune.superprompt.super_prompt import SuperPrompt

_DEMO = Path(__file__).resolve().parents[1] / "datasets" / "demo"
_ANSWERS = Path(__file__).resolve().parents[1] / "results" / "prompts"
_NOTICE = "the documents say little"
_EMPTY = ("no chunk of conversation", "no candidate passed")
_SAID_WORDS = 5


def main() -> int:
    """Print a table with one row a document set, one for all sets, and one for the demo collection."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--split", choices=("tune", "held", "fresh", "fresh2"), default="tune")
    parser.add_argument("--sets", nargs="+", help="document sets, by name; by default all")
    parser.add_argument("--model", type=Path)
    parser.add_argument("--show", action="store_true")
    parser.add_argument("--llm", metavar="NAME", help="language model, as its server names it")
    parser.add_argument("--stages", nargs="+", choices=AGENT_STAGES, default=AGENT_STAGES, help="stages that ask it")
    parser.add_argument("--base-url", help="OpenAI-compatible server")
    parser.add_argument("--answers", type=Path, default=_ANSWERS, help="folder of the recorded answers")
    arguments = parser.parse_args()
    if arguments.show and arguments.split in ("held", "fresh2"):
        parser.error("--show is for the tuning prompts")
    results: dict[str, list[dict[str, Any]]] = {}
    asked = prompts(arguments.split)
    all_sets = dict.fromkeys(judged["set"] for judged in asked)
    names = arguments.sets or all_sets
    if unknown := [name for name in names if name not in all_sets]:
        parser.error(f"--sets {' '.join(unknown)}: allowed are {', '.join(all_sets)}")
    for name, documents in fetch(arguments.directory, *names).items():
        judgments = Judgments(documents)
        pipeline = _pipeline(documents, arguments.model, _llm(arguments))
        results[name] = [
            _measured(pipeline, judged, judgments, arguments.show) for judged in asked if judged["set"] == name
        ]
    results["all"] = [result for rows in list(results.values()) for result in rows]
    _print(results)
    if arguments.llm:
        _print_asked(results["all"])
    else:
        _demo(arguments.model)
    return 0


def _llm(arguments: argparse.Namespace) -> dict[str, Any]:
    """The options of the language model; an answer that cannot be used leaves the stage to its rule."""
    if arguments.llm is None:
        return {}
    llm = {
        "model": arguments.llm,
        "stages": arguments.stages,
        "base_url": arguments.base_url,
        "cache_dir": str(arguments.answers),
        "mode": "record" if arguments.base_url else "replay",
        "json_mode": "json_schema",
        "thinking_tokens": 0,
        "timeout_s": 900.0,
        "concurrency": 1,
    }
    return {"llm": llm, "llm_failure": "default"}


def _pipeline(documents: dict[str, str], model: Path | None, llm: dict[str, Any]) -> Pipeline:
    chosen = {"kind": "auto"} if model is None else {"kind": "cross_encoder", "model": str(model)}
    options = load_options(None, {"reranker": chosen}, llm)
    memory = DocumentMemory.from_texts(documents, options.chunking)
    if model is None:
        options = load_options(None, {"reranker": {"kind": "auto", "model": "no-model-on-this-machine"}}, llm)
    pipeline = make_pipeline(options, memory)
    if llm:
        return pipeline
    pipeline.run_all(SuperPrompt.raw("How is anything loaded before the first prompt?"))
    return pipeline


def _measured(pipeline: Pipeline, judged: dict[str, Any], judgments: Judgments, is_shown: bool) -> dict[str, Any]:
    busy = time.process_time()
    done = pipeline.run_all(SuperPrompt.raw(judged["prompt"]))
    busy = time.process_time() - busy
    answers = [judgments.find(reference) for reference in judged.get("answers", ())]
    useful = [*answers, *(judgments.find(reference) for reference in judged.get("useful", ()))]
    attached = done.chunks(done.final_selection_ids)

    def holds(sections: list, chunk: Any) -> bool:
        return any(judgments.holds(section, chunk.doc_id, chunk.snippet) for section in sections)

    hits = [any(holds(sections, chunk) for sections in useful) for chunk in attached]
    found = [any(holds(sections, chunk) for chunk in attached) for sections in answers]
    bullets = [_bullet(line, useful) for line in done.s_ctx_md.split("\n") if re.search(r" \[\d+\]$", line)]
    notices = [notice["message"] for notice in done.extras.get("notices", [])]
    flaws = flaws_of(judged["format"], done)
    if is_shown:
        _show(judged, done, hits, bullets, notices, flaws)
    return {
        "is_covered": judged.get("covered", True),
        "hits": hits,
        "found": found,
        "bullets": bullets,
        "notice": any(_NOTICE in message or message.startswith(_EMPTY) for message in notices),
        "right": not flaws,
        "cpu": busy,
        "asked": done.extras["llm"],
        "costs": {entry["stage"]: entry["charged"] for entry in done.extras["costs"]},
    }


def _bullet(line: str, useful: list) -> bool:
    """Whether a line of S_CTX quotes a judged section, in at least five words or as code."""
    text = re.sub(r"^- | \[\d+\]$", "", line)
    said = shingles(text)
    inside = any(len(said & section[1]) >= 0.6 * len(said) for sections in useful for section in sections)
    return inside and (len(re.findall(r"\w+", text)) >= _SAID_WORDS or "`" in text)


def flaws_of(wanted: dict[str, Any], done: SuperPrompt) -> list[str]:
    """Return in which ways the format, as the final prompt states it, is not the wanted one."""
    enforced = done.extras["format_enforcer"]
    rules, shape = "\n".join(enforced["hard_rules"]), str(enforced["example_shape"])
    spec = f"{enforced['normalized_format_spec']}\n{rules}"
    kind, keys = wanted["kind"], wanted.get("keys", [])
    separator = wanted.get("separator", ",")
    marks = {
        "json": "json" in spec.lower()
        and shape.lstrip()[:1] in {"array": "[", "object": "{"}.get(wanted.get("root", ""), "[{"),
        "csv": "csv" in spec.lower() and (not keys or shape.split("\n")[0] == separator.join(keys)),
        "sql": "sql" in spec.lower(),
        "code": wanted.get("language_of_code", "code") in spec.lower(),
        "table": "|" in shape and "table" in spec.lower(),
        "bullets": "- " in shape and "bullet" in spec.lower(),
        "numbered": "1. " in shape,
        "checklist": "- [ ]" in shape,
        "email": "mail" in spec.lower(),
        "prose": not re.search(r"\b(?:json|csv|yaml|xml|html|table|list|code block|plain text)\b", spec, re.IGNORECASE),
    }
    checks = {
        f"no {kind}": marks[kind],
        "says Markdown": kind not in ("json", "csv", "sql", "code") or "markdown" not in spec.lower(),
        "keys": all(key in shape for key in keys),
        "only": not wanted.get("only") or re.search(r"\bonly\b|nothing else|no (?:text|explan)", spec, re.IGNORECASE),
        "count": "count" not in wanted or re.search(rf"\b{wanted['count']}\b", spec),
        "words": "words" not in wanted or str(wanted["words"]) in spec,
        "language": "language" not in wanted or re.search(r"german|deutsch", spec + done.system_md, re.IGNORECASE),
        "audience": wanted.get("audience", "").lower() in done.body.get("audience", "").lower(),
        "persona": "persona" not in wanted
        or (wanted["persona"] in done.system_md and wanted["persona"] not in done.body["task"]),
    }
    return [name for name, is_right in checks.items() if not is_right]


def _show(judged: dict, done: SuperPrompt, hits: list, bullets: list, notices: list, flaws: list) -> None:
    print(f"\n## {judged['id']} {judged['prompt']}\n   {notices} {flaws}\n   {done.extras['format_enforcer']}")
    for chunk, hit in zip(done.chunks(done.final_selection_ids), hits, strict=True):
        print(f"   {'+' if hit else '-'} {chunk.id}: {' '.join(chunk.snippet.split())[:110]}")
    for line, is_useful in zip(
        [line for line in done.s_ctx_md.split("\n") if re.search(r" \[\d+\]$", line)], bullets, strict=True
    ):
        print(f"   {'OK' if is_useful else '??'} {line[:200]}")


def _print(results: dict[str, list[dict[str, Any]]]) -> None:
    titles = "set, prompts, attachments, precision, mean of prompts, recall, bullets useful, format"
    titles += ", notices: uncovered, covered"
    print(f"| {titles.replace(', ', ' | ')} | CPU s |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|")
    for name, rows in results.items():
        covered = [row for row in rows if row["is_covered"]]
        others = [row for row in rows if not row["is_covered"]]
        hits, bullets = ([hit for row in covered for hit in row[key]] for key in ("hits", "bullets"))
        each = [statistics.mean(row["hits"] or [0]) for row in covered]
        recall = statistics.mean(statistics.mean(row["found"]) for row in covered)
        cells = [
            len(rows),
            f"{len(hits) / len(covered):.1f}",
            f"{_share(hits)} of {len(hits)}",
            f"{statistics.mean(each):.2f}",
            f"{recall:.2f}",
            f"{_share(bullets)} of {len(bullets)}",
            f"{sum(row['right'] for row in rows)} of {len(rows)}",
            f"{sum(row['notice'] for row in others)} of {len(others)}",
            f"{sum(row['notice'] for row in covered)} of {len(covered)}",
            f"{statistics.mean(row['cpu'] for row in rows):.2f}",
        ]
        print(f"| {name} | {' | '.join(map(str, cells))} |")


def _print_asked(rows: list[dict[str, Any]]) -> None:
    """How often each stage could use the model's answer, and what a prompt cost."""
    print("\n| stage | answers used | calls | tokens a prompt | seconds a prompt | reasons of the others |")
    print("|---|---:|---:|---:|---:|---|")
    for stage in AGENT_STAGES:
        asked = [row["asked"].get(stage, {}) for row in rows]
        costs = [row["costs"][stage] for row in rows]
        if not any(cost["calls"] for cost in costs):
            continue
        reasons = Counter(str(one.get("error") or one.get("reason"))[:90] for one in asked if not one.get("used"))
        cells = [
            f"{sum(bool(one.get('used')) for one in asked)} of {len(rows)}",
            sum(cost["calls"] for cost in costs),
            f"{statistics.mean(cost['tokens'] for cost in costs):,.0f}",
            f"{statistics.mean(cost['latency_ms'] for cost in costs) / 1000:.1f}",
            "; ".join(f"{count} {reason}" for reason, count in reasons.most_common()),
        ]
        print(f"| {stage} | {' | '.join(map(str, cells))} |")


def _share(flags: list[bool]) -> str:
    return f"{statistics.mean(flags):.2f}" if flags else "-"


def _demo(model: Path | None) -> None:
    """The former figures of results/prompt_quality.md, by the same rules."""
    pipeline = _pipeline(dict(read_folder(_DEMO)), model, {})
    relevant: dict[str, set[str]] = {}
    for line in (_DEMO / "qrels" / "test.tsv").read_text(encoding="utf-8").split("\n")[1:]:
        if line and int((cells := line.split("\t"))[-1]) > 0:
            relevant.setdefault(cells[0], set()).add(cells[-2])
    precisions, recalls, counts, bullets, false = [], [], [], [], []
    for query in map(json.loads, (_DEMO / "queries.jsonl").read_text(encoding="utf-8").splitlines()):
        done = pipeline.run_all(SuperPrompt.raw(query["text"]))
        wanted = relevant[query["_id"]]
        attached = [chunk.doc_id for chunk in done.chunks(done.final_selection_ids)]
        precisions.append(statistics.mean([doc in wanted for doc in attached] or [0]))
        recalls.append(len(wanted & set(attached)) / len(wanted))
        counts.append(len(attached))
        cited = re.findall(r" \[(\d+)\]$", done.s_ctx_md, re.MULTILINE)
        bullets += [attached[int(number) - 1] in wanted for number in cited]
        false.append(_has_notice(done))
    asked = [json.loads(line) for line in (_DEMO / "uncovered.jsonl").read_text(encoding="utf-8").splitlines()]
    noticed = {half: [] for half in dict.fromkeys(row["half"] for row in asked)}
    for row in asked:
        noticed[row["half"]].append(_has_notice(pipeline.run_all(SuperPrompt.raw(row["text"]))))
    means = [statistics.mean(values) for values in (counts, precisions, recalls, bullets, false)]
    print(
        "\n| demo | attachments | precision | recall | relevant bullets | false notices | uncovered: notices by part |"
    )
    print("|---|---:|---:|---:|---:|---:|---:|")
    shares = " / ".join(f"{statistics.mean(values):.0%}" for values in noticed.values())
    attached_share = f"{means[0]:.1f} | {means[1]:.2f} | {means[2]:.2f} | {means[3]:.0%} of {len(bullets)}"
    print(f"| 50 | {attached_share} | {means[4]:.0%} | {shares} |")


def _has_notice(done: SuperPrompt) -> bool:
    return any(_NOTICE in notice["message"] for notice in done.extras.get("notices", []))


if __name__ == "__main__":
    sys.exit(main())
