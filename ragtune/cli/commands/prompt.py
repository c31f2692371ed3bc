"""Run a prompt through the eight stages and print the result."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from ragtune.cli.dispatch import flag, refuse
from ragtune.core.errors import ConfigError, InputError, RagtuneError
from ragtune.llm.types import ChatResult
from ragtune.superprompt import SuperPrompt
from ragtune.superprompt.memory.inputs import decode, parse_conversation, read_file
from ragtune.superprompt.options import PromptOptions, load_options, nested, parse_change, write_options
from ragtune.superprompt.parts import make_client, open_pipeline
from ragtune.superprompt.pipeline import answer
from ragtune.superprompt.stages.base import ORDER, FailedStageError

_STDIN = "-"
_OPTIONS = {
    "corpus": ("memory.folder", "DIR", "what is searched: a folder or file of any form that ragtune ingest reads"),
    "collection": ("memory.collection", "NAME", "a collection of ragd; --corpus is searched, too"),
    "data_dir": ("memory.data_dir", "DIR", "folder of its embedded PostgreSQL; $RAGTUNE_DSN names a server"),
    "reranker": ("reranker.kind", "KIND", "auto, none, cross_encoder or budgeted"),
    "llm_model": ("llm.model", "MODEL", "name of the language model on the server; none without it"),
    "llm_base_url": ("llm.base_url", "URL", "OpenAI-compatible server; else $OPENAI_BASE_URL"),
}
"""By name: the option of the configuration that it sets, what stands for its value, and help."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the command."""
    parser.allow_abbrev = False  # --llm-mode is no short form of --llm-model
    parser.add_argument("prompt", nargs="?", help="the prompt, with or without headers; - reads stdin")
    how_far = parser.add_argument_group("how far")
    stages = how_far.add_mutually_exclusive_group()
    stages.add_argument("--auto", action="store_true", help="all eight stages, the default")
    stages.add_argument("--until", metavar="STAGE", help="stop after this one, e.g. Retrieval")
    stages.add_argument("--answer", action="store_true", help="all eight, then print the language model's answer")
    parser.add_argument("--conversation", metavar="FILE", type=Path, help="recent turns as 'User: ...' lines")
    parser.add_argument("--json", action="store_true", help="print the whole SuperPrompt; with --answer both")
    config = parser.add_argument_group("configuration", "Options below stand over --set, and that over the file.")
    config.add_argument("--config", metavar="FILE", type=Path, help="YAML or JSON with any option of --print-config")
    config.add_argument("--set", metavar="NAME=VALUE", action="append", default=[], help="set one option; repeatable")
    config.add_argument("--print-config", action="store_true", help="print all; docs/prompt-options.yaml explains them")
    for name, (_, metavar, meaning) in _OPTIONS.items():
        config.add_argument(flag(name), metavar=metavar, action="append", help=meaning)


def run(arguments: argparse.Namespace) -> int:
    """Run the stages; notices go to stderr, the prompt or its answer to stdout."""
    options = _options(arguments)
    if arguments.print_config:
        _print(write_options(options).rstrip("\n"))
        return 0
    last = arguments.until or ORDER[-1]
    if last not in ORDER:
        raise ConfigError(f"--until {last}: allowed are {', '.join(ORDER)}")
    if arguments.answer and options.llm.model is None:
        raise ConfigError("--answer needs a language model: --llm-model, or llm.model in --config")
    spoken = arguments.conversation
    told = "" if spoken is None else read_file(spoken.expanduser(), f"--conversation {str(spoken)!r}")
    sp = SuperPrompt.raw(_prompt(arguments.prompt), parse_conversation(told))
    if options.memory.folder is None and options.memory.collection is None:
        sys.stderr.write("ragtune: note: no --corpus: the shipped demo collection is searched\n")
    with open_pipeline(options) as pipeline:
        try:
            for name in ORDER[: ORDER.index(last) + 1]:
                sp = pipeline.run_stage(name, sp)
        except FailedStageError as error:
            if isinstance(error.__cause__, InputError):
                raise
            raise RagtuneError(str(error)) from error
    said = answer(sp, make_client(options.llm)) if arguments.answer else None
    for notice in sp.extras.get("notices", []):
        sys.stderr.write(f"ragtune: note: {notice['message']}\n")
    if arguments.json:
        _print(_whole(sp, said))
    else:
        _print(sp.prompt_ready if said is None else said.text)
    return 0


def _options(arguments: argparse.Namespace) -> PromptOptions:
    values: dict[str, list[str]] = {name: value for name in _OPTIONS if (value := getattr(arguments, name)) is not None}
    if twice := [f"{flag(name)} {' and '.join(value)}" for name, value in values.items() if len(value) > 1]:
        raise ConfigError(f"{twice[0]}: allowed is one")
    given = {_OPTIONS[name][0]: value for name, (value,) in values.items()}
    options = load_options(arguments.config, *map(parse_change, arguments.set), nested(given))
    if options.llm.model is None:
        refuse(arguments, ["llm_base_url"], "with --llm-model only")
    if options.memory.collection is None:
        refuse(arguments, ["data_dir"], "with --collection only")
    return options


def _print(text: str) -> None:
    # Bytes, since the same prompt must look the same in every locale.
    sys.stdout.buffer.write(text.encode("utf-8") + b"\n")
    sys.stdout.flush()


def _prompt(given: str | None) -> str:
    if given is None:
        raise ConfigError("the prompt is missing: a text, or - to read stdin")
    if given == _STDIN:
        return decode("stdin", sys.stdin.buffer.read())
    return decode("prompt", given.encode("utf-8", "surrogateescape"))


def _whole(sp: SuperPrompt, said: ChatResult | None) -> str:
    """The JSON form; what depends on the machine and on earlier runs is left out of the costs."""
    costs = [{"stage": entry["stage"], "charged": entry["charged"]} for entry in sp.extras["costs"]]
    sp = sp.model_copy(update={"extras": {**sp.extras, "costs": costs}})
    if said is None:
        return sp.to_json()
    told = {"text": said.text, "model": said.model, "charged": said.cost.model_dump()}
    return f'{{"super_prompt": {sp.to_json()}, "answer": {json.dumps(told, ensure_ascii=False)}}}'
