"""Compare the decisions and the canonical answers of the code with the golden ones.

Without options it checks the decisions of all estimators and schedulers, and the canonical blocks (chunk, embed, store,
retrieve, fuse, rerank, compress, package) on the store in memory.

With ``--url`` it checks only the canonical blocks of a running server with RAGtune's REST interface:

    ragtune conformance --url https://rag.example.org --api-key-env MY_KEY

The server needs the embedder ``hashing`` (256 dims). The reranker of the golden answers is optional:
``--reranker none`` skips its cases. The command makes collections and drops them.

Each run checks the golden decisions of its own components. This command checks all components.

The exit code is 0 if the code conforms, 1 if it does not, 2 on bad input or a server that cannot be reached.
``--update`` records the current decisions, ``--update-canonical`` the current canonical answers. Review the diff: a
changed decision or answer needs a new version of the specification.
"""

from __future__ import annotations

import argparse
import sys

from ragtune.cli.dispatch import refuse
from ragtune.core.errors import InputError, RagtuneError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the command."""
    parser.add_argument("--url", help="address of a running server, without /v1")
    parser.add_argument("--api-key-env", metavar="NAME", help="environment variable that holds its API key")
    parser.add_argument("--reranker", help="its name for 'hashing' (default); none: skip these cases")
    parser.add_argument("--update", action="store_true", help="record the current decisions")
    parser.add_argument("--update-canonical", action="store_true", help="record the current canonical answers")


def run(arguments: argparse.Namespace) -> int:
    """Check or pin; 1 is the exit code of what does not conform, so that every error is an InputError."""
    from experiments.conformance.canonical import pin_canonical
    from experiments.conformance.golden import pin

    if arguments.url is None:
        refuse(arguments, ["api_key_env", "reranker"], "with --url only")
    try:
        if arguments.update:
            pin()
        if arguments.update_canonical:
            pin_canonical()
        conforms = arguments.url is not None or _check_decisions()
        return 0 if _check_target(arguments) and conforms else 1
    except RagtuneError as error:
        raise InputError(str(error)) from error


def _check_decisions() -> bool:
    from experiments.conformance.golden import SPECS, differences

    found = differences()
    sys.stdout.writelines(f"{line}\n" for line in found)
    sys.stdout.write(f"conformance with spec {SPECS['decisions']}: {'failed' if found else 'passed'}\n")
    return not found


def _check_target(given: argparse.Namespace) -> bool:
    from experiments.conformance.canonical import LibraryTarget
    from ragtune.canonical.conformance.suite import run_suite
    from ragtune.canonical.conformance.targets import RestTarget, Target
    from ragtune.llm.credentials import named_key

    target: Target = LibraryTarget()
    if given.url is not None:
        key = None if given.api_key_env is None else named_key("--api-key-env", given.api_key_env)
        target = RestTarget(given.url, key, None if given.reranker == "none" else given.reranker or "hashing")
        target.call("list_collections", {})  # one clear error where no server answers
    report = run_suite(target)
    sys.stdout.writelines(f"{line}\n" for line in report.lines)
    sys.stdout.write(f"{report.summary}\n")
    return not report.failures
