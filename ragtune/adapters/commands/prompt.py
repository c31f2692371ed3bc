"""Take a prompt through the eight stages and print what came of it."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from ragtune.core.errors import ConfigError, InputError, RagtuneError

if TYPE_CHECKING:
    from ragtune.adapters.page.settings import Settings
    from ragtune.superprompt import Pipeline, SuperPrompt, Turn

NAME = "prompt"
SUMMARY = "take a prompt through the SuperPrompt pipeline"

_STDIN = "-"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the command."""
    parser.add_argument("prompt", help="what is to be done, with or without headers; - reads stdin")
    parser.add_argument(
        "--corpus",
        metavar="DIR",
        type=Path,
        help="Markdown and text files, or BEIR's corpus.jsonl; without it the shipped demo collection",
    )
    how_far = parser.add_argument_group("how far")
    how_far.add_argument("--auto", action="store_true", help="all eight stages")
    how_far.add_argument("--until", metavar="STAGE", help="stop after this one, e.g. Retrieval")
    parser.add_argument("--conversation", metavar="FILE", type=Path, help="recent turns: 'User: ...' lines, or JSON")
    parser.add_argument("--json", action="store_true", help="print the whole SuperPrompt")
    parser.add_argument(
        "--timings", action="store_true", help="with --json: milliseconds and what was really paid; no two runs agree"
    )
    parser.add_argument("--limits", metavar="NAME=N", action="append", default=[], help="another limit; repeatable")
    reranker = parser.add_argument_group("reranker")
    reranker.add_argument("--reranker", metavar="KIND", default="none", help="none, cross_encoder or budgeted")
    reranker.add_argument("--reranker-model", metavar="MODEL", help="folder or hub name of a cross-encoder")
    reranker.add_argument("--budget", metavar="N", type=int, default=20, help="chunks that budgeted may read")
    llm = parser.add_argument_group("language model, off without --llm-model")
    llm.add_argument("--llm-model", metavar="MODEL", help="as the server names it")
    llm.add_argument("--llm-base-url", metavar="URL", help="OpenAI-compatible server; else $OPENAI_BASE_URL")
    llm.add_argument("--llm-mode", metavar="MODE", help="live, record or replay; record unless given")
    llm.add_argument("--llm-key-env", metavar="NAME", help="variable that holds the key; OPENAI_API_KEY unless given")


def run(arguments: argparse.Namespace) -> int:
    """Run the stages; notices go to stderr, the prompt to stdout.

    Raises:
        InputError: on bad input, or if a stage cannot do its work with the input.
        RagtuneError: if a service failed.
    """
    from ragtune.adapters.page.assembly import assemble
    from ragtune.adapters.page.documents import make_memory, read_folder
    from ragtune.core.request.clock import VirtualClock
    from ragtune.superprompt import SuperPrompt

    last = _last_stage(arguments)
    if arguments.timings and not arguments.json:
        raise ConfigError("--timings: allowed with --json only")
    settings = _settings(arguments)
    turns = _turns(arguments.conversation)
    memory = make_memory([read_folder(_corpus(arguments.corpus))], settings.config().chunking)
    clock = None if arguments.timings else VirtualClock()
    pipeline = assemble(settings, memory, turns, settings.make_reranker(), clock)
    done = _run_until(pipeline, SuperPrompt.raw(_prompt(arguments.prompt), turns), last)
    for notice in done.extras.get("notices", []):
        sys.stderr.write(f"ragtune: note: {notice['message']}\n")
    shown = _whole(done, with_timings=arguments.timings) if arguments.json else done.prompt_ready
    # Bytes, since the same prompt must look the same in every locale.
    sys.stdout.buffer.write(shown.encode("utf-8") + b"\n")
    sys.stdout.flush()
    return 0


def _corpus(given: Path | None) -> Path:
    from ragtune.adapters.page.documents import demo_folder

    if given is not None:
        return given
    sys.stderr.write("ragtune: note: no --corpus: the shipped demo collection is searched\n")
    return demo_folder()


def _last_stage(arguments: argparse.Namespace) -> str:
    from ragtune.superprompt.stages.base import ORDER

    if arguments.auto == (arguments.until is not None):
        raise ConfigError("allowed is one of --auto and --until STAGE")
    if arguments.auto:
        return ORDER[-1]
    if arguments.until not in ORDER:
        raise ConfigError(f"--until {arguments.until}: allowed are {', '.join(ORDER)}")
    until: str = arguments.until
    return until


def _run_until(pipeline: Pipeline, sp: SuperPrompt, last: str) -> SuperPrompt:
    from ragtune.superprompt.stages.base import ORDER, FailedStageError

    try:
        for name in ORDER[: ORDER.index(last) + 1]:
            sp = pipeline.run_stage(name, sp)
    except FailedStageError as error:
        if isinstance(error.__cause__, InputError):
            raise
        raise RagtuneError(str(error)) from error
    return sp


def _settings(arguments: argparse.Namespace) -> Settings:
    from ragtune.adapters.page.settings import KEY_VARIABLE, LLMSettings, Settings, parse_limit
    from ragtune.superprompt.reranking.top import CROSS_ENCODER

    llm = None
    if arguments.llm_model is not None:
        variable, mode = arguments.llm_key_env or KEY_VARIABLE, arguments.llm_mode or "record"
        llm = LLMSettings(arguments.llm_model, arguments.llm_base_url, variable, mode)
    elif arguments.llm_base_url or arguments.llm_mode or arguments.llm_key_env:
        raise ConfigError("--llm-base-url, --llm-mode and --llm-key-env: allowed with --llm-model only")
    if arguments.reranker_model and arguments.reranker == "none":
        raise ConfigError("--reranker-model: allowed with --reranker cross_encoder or budgeted only")
    settings = Settings(
        limits=dict(map(parse_limit, arguments.limits)),
        llm=llm,
        reranker=arguments.reranker,
        reranker_model=arguments.reranker_model or CROSS_ENCODER,
        budget_docs=arguments.budget,
    )
    settings.check()
    return settings


def _prompt(given: str) -> str:
    if given != _STDIN:
        return _utf8("prompt", given.encode("utf-8", "surrogateescape"))
    return _utf8("stdin", sys.stdin.buffer.read())


def _turns(file: Path | None) -> list[Turn]:
    from ragtune.adapters.page.conversation import parse_conversation

    if file is None:
        return []
    try:
        data = file.expanduser().read_bytes()
    except OSError as error:
        raise ConfigError(f"--conversation {str(file)!r} cannot be read ({error.strerror or error})") from error
    return parse_conversation(_utf8(f"--conversation {str(file)!r}", data))


def _utf8(name: str, data: bytes) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigError(f"{name}: not UTF-8 (byte 0x{data[error.start]:02x} at position {error.start})") from None


def _whole(sp: SuperPrompt, *, with_timings: bool) -> str:
    """The JSON form; what depends on the machine and on earlier runs is left out of the costs unless asked for."""
    if with_timings:
        return sp.to_json()
    costs = [{"stage": entry["stage"], "charged": entry["charged"]} for entry in sp.extras["costs"]]
    return sp.model_copy(update={"extras": {**sp.extras, "costs": costs}}).to_json()
