"""python scripts/conformance.py: compare the decisions and the canonical answers of the code with the golden ones.

Without options it checks the decisions of all estimators and schedulers, and the canonical blocks (chunk, embed, store,
retrieve, fuse, rerank, compress, package) on the store in memory.

With ``--target`` it checks only the canonical blocks, as that target offers them:

    python scripts/conformance.py --target memory|postgres|rest|mcp
    python scripts/conformance.py --target rest --url https://rag.example.org --api-key-env MY_KEY

``postgres`` is the server that RAGTUNE_DSN names, else one of its own; ``rest`` and ``mcp`` start RAGtune's own server
unless ``--url`` names one (for mcp its endpoint, ``.../mcp``). A server must offer the embedder ``hashing`` (256 dims);
the reranker of the golden answers is optional: ``--reranker none`` skips its cases. A collection is made and dropped.

How the two suites ended for this version of the code is recorded in the cache folder; runs say so in their summaries
and tags, or ``not checked`` where nobody has checked this version.

The exit code is 0 if the code conforms, 1 if it does not, 2 on bad input or a server that cannot be reached.
``--update`` pins the decisions of today, ``--update-canonical`` the canonical answers of today (review the diff: a
changed decision or answer is a changed spec version).
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from experiments.conformance.canonical import TARGETS, open_target, pin_canonical
from experiments.conformance.golden import differences, pin
from experiments.conformance.outcomes import SPECS, record
from experiments.publish.terminal import progress_bar
from ragtune.canonical.conformance.suite import run_suite
from ragtune.canonical.conformance.targets import RERANKER
from ragtune.core.errors import ConfigError, RagtuneError


def main() -> int:
    """Check or pin, and return the exit code."""
    given = _arguments()
    try:
        if given.update:
            pin()
        if given.update_canonical:
            pin_canonical()
        conforms = given.target is not None or _check_decisions()
        return 0 if _check_target(given) and conforms else 1
    except RagtuneError as error:
        sys.stderr.write(f"error: {error}\n")
        return 2


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", choices=TARGETS, help="who is asked")
    parser.add_argument("--url", help="a server that is there already")
    parser.add_argument("--api-key-env", metavar="NAME", help="environment variable that holds its API key")
    parser.add_argument("--reranker", default=RERANKER, help=f"its name for {RERANKER!r}; none: it has none")
    parser.add_argument("--update", action="store_true", help="pin today's decisions")
    parser.add_argument("--update-canonical", action="store_true", help="pin today's canonical answers")
    return parser.parse_args()


def _check_decisions() -> bool:
    found = differences()
    sys.stdout.writelines(f"{line}\n" for line in found)
    sys.stdout.write(f"conformance with spec {SPECS['decisions']}: {'failed' if found else 'passed'}\n")
    _record("decisions", found)
    return not found


def _check_target(given: argparse.Namespace) -> bool:
    kind = given.target or "memory"
    reranker = None if given.reranker == "none" else given.reranker
    with (
        open_target(kind, given.url, _api_key(given.api_key_env), reranker) as target,
        progress_bar(f"asking {target.name}", enabled=True) as update,
    ):
        report = run_suite(target, update)
    sys.stdout.writelines(f"{line}\n" for line in report.lines)
    sys.stdout.write(f"{report.summary}\n")
    if kind == "memory" and not report.skipped:
        _record("canonical", report.lines)
    return report.outcome == "passed"


def _record(suite: str, found: list[str]) -> None:
    try:
        record(suite, found)
    except OSError as error:
        sys.stderr.write(f"warning: the outcome cannot be recorded, so runs say 'not checked': {error}\n")


def _api_key(variable: str | None) -> str | None:
    if variable is None:
        return None
    if not os.environ.get(variable):
        raise ConfigError(f"--api-key-env {variable}: that environment variable is not set")
    return os.environ[variable]


if __name__ == "__main__":
    sys.exit(main())
