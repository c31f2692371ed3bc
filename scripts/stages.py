"""python scripts/stages.py --model NAME --base-url URL: what each stage gains with a language model.

Every judged query goes through the prompt pipeline with the model in no stage, in each by itself, and in all; the same
model answers every final prompt. Answers are recorded below --answers, so that the table can be made again without the
server: --mode replay. Any OpenAI-compatible server will do.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from experiments.config.paths import PROJECT_ROOT
from experiments.datasets.beir import BeirDataset
from experiments.study.stages.report import write_stages
from experiments.study.stages.study import Outcome, run_stages
from ragtune.adapters.dispatch import complain
from ragtune.core.errors import ConfigError, RagtuneError
from ragtune.rerankers.replay import ReplayReranker
from ragtune.superprompt.options import load_options
from ragtune.superprompt.options.parts import make_client
from ragtune.superprompt.options.reading import nested, parse_change

OUT = Path("results", "stages")
DEMO = PROJECT_ROOT / "datasets" / "demo"


def main() -> int:
    """Run, write the table, and return the exit code: 0 done, 2 bad input, 1 a service failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", metavar="NAME", required=True, help="as the server names it")
    parser.add_argument("--base-url", metavar="URL", help="OpenAI-compatible server; else $OPENAI_BASE_URL")
    parser.add_argument("--mode", default="record", help="record, or replay: send nothing")
    parser.add_argument("--answers", metavar="DIR", type=Path, help="the record; by default OUT/answers")
    parser.add_argument("--dataset", metavar="DIR", type=Path, default=DEMO, help="BEIR's layout")
    parser.add_argument("--every", metavar="N", type=int, default=1, help="every n-th query only")
    parser.add_argument("--scores", metavar="FILE", type=Path, help="recorded scores of a reranker for the ReRanker")
    parser.add_argument("--config", metavar="FILE", type=Path, help="options of the pipeline")
    parser.add_argument("--set", metavar="NAME=VALUE", action="append", default=[], help="one option; repeatable")
    parser.add_argument("--note", metavar="TEXT", help="a line for the head of the table, e.g. what the model is")
    parser.add_argument("--out", metavar="DIR", type=Path, default=OUT, help=f"the table; by default {OUT}")
    arguments = parser.parse_args()
    command = shlex.join(["python", "scripts/stages.py", *sys.argv[1:]])
    try:
        return _run(arguments, command)
    except RagtuneError as error:
        return complain(error)


def _run(arguments: argparse.Namespace, command: str) -> int:
    asked = {"llm.model": arguments.model, "llm.mode": arguments.mode, "llm.base_url": arguments.base_url}
    asked["llm.cache_dir"] = str(arguments.answers or arguments.out / "answers")
    fallback = nested({"llm_failure": "default", "llm.json_mode": "json_schema", "llm.max_tokens": 160})
    changes = [parse_change(text) for text in arguments.set]
    options = load_options(arguments.config, fallback, nested(asked), *changes)
    dataset = BeirDataset(str(arguments.dataset), every=arguments.every).load()
    if not dataset.qrels:
        raise ConfigError(f"--dataset {str(arguments.dataset)!r}: nobody has judged it")
    reranker = None if arguments.scores is None else ReplayReranker(str(arguments.scores))
    client = make_client(options.llm)
    if client is None:
        raise ConfigError("llm.model=None: a language model is what is measured here")
    outcomes = run_stages(dataset, options, client, reranker, _tell)
    sys.stdout.write(write_stages(arguments.out, outcomes, options, dataset.name, command, arguments.note))
    return 0


def _tell(outcome: Outcome) -> None:
    failed = f", no usable answer: {', '.join(outcome.failed)}" if outcome.failed else ""
    sys.stderr.write(f"{outcome.query_id} {outcome.variant}{failed}\n")


if __name__ == "__main__":
    sys.exit(main())
