"""Search a collection of ragtune ingest, or a table of PostgreSQL, and print the best chunks.

    ragtune search "how do I cancel a task" --collection docs

Each result has its rank, source, headings and score, and the sentences that match best, with the question's words
marked. The default mode is hybrid for a collection with fitted weights or an embedder of meanings, else lexical.

--fit FILE measures all modes on labelled questions, and keeps the best fusion, by ranks or scores, with the
collection; of a table nothing is kept. FILE has JSON lines: {"question": "...", "docs": ["id of an answer", ...]}.

Exit code 0 done, 2 bad input, 1 a failing database.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Any

from ragtune.canonical.compression import compress
from ragtune.canonical.fitting import fit, read_questions
from ragtune.canonical.packaging import package
from ragtune.canonical.policies import CompressPolicy, RetrievalPlan
from ragtune.canonical.retrieval import retrieve
from ragtune.canonical.store.attached import attach
from ragtune.canonical.store.base import BaseSearcher, BaseStore
from ragtune.cli.commands.options import add_store_options, make_embedder, open_store
from ragtune.cli.dispatch import refuse
from ragtune.core.arguments import check_count
from ragtune.core.errors import ConfigError
from ragtune.data.text import term_of

_COLUMNS = ("id", "text", "tsv", "vector", "language")  # of a table
_WORD = re.compile(r"\w+")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the command."""
    parser.add_argument("question", nargs="?", help="any text")
    parser.add_argument("--collection", metavar="NAME", help="what is searched")
    parser.add_argument("--mode", choices=("lexical", "vector", "hybrid"), help="by words, by vectors, or both")
    parser.add_argument("--fusion", choices=("rrf", "scores", "fitted"), help="of hybrid; default: fitted, else rrf")
    parser.add_argument("-k", type=int, metavar="N", help="results; default: 5")
    parser.add_argument("--where", action="append", metavar="NAME=VALUE", help="equal metadata; repeatable")
    parser.add_argument("--json", action="store_const", const=True, help="print everything as JSON")
    parser.add_argument("--fit", metavar="FILE", type=Path, help="labelled questions, to choose the fusion")
    table = parser.add_argument_group("an existing table, which is only read")
    table.add_argument("--table", metavar="SCHEMA.TABLE", help="a table or view")
    table.add_argument("--id", metavar="COLUMN", help="its ids; default: id")
    table.add_argument("--text", metavar="COLUMN", help="its texts; default: text")
    table.add_argument("--tsv", metavar="COLUMN", help="a tsvector of the texts, generated and indexed")
    table.add_argument("--vector", metavar="COLUMN", help="vectors, of pgvector or an array of numbers")
    table.add_argument("--language", metavar="NAME", help="its text search configuration; default: english")
    add_store_options(parser)


def run(arguments: argparse.Namespace) -> int:
    """Search and print, or fit."""
    if bool(arguments.question) == (arguments.fit is not None):
        raise ConfigError("a question or --fit FILE: allowed is one of them")
    if (arguments.collection is None) == (arguments.table is None):
        raise ConfigError("--collection NAME or --table SCHEMA.TABLE: allowed is one of them")
    if arguments.fit is not None:
        refuse(arguments, ["mode", "fusion", "k", "where", "json"], "without --fit only")
    if arguments.mode in ("lexical", "vector"):
        refuse(arguments, ["fusion"], "with --mode hybrid only")
    if arguments.table is None:
        refuse(arguments, _COLUMNS, "with --table only")
    with _opened(arguments) as store:
        if arguments.fit is not None:
            return _fit(store, arguments.fit)
        plan = _plan(arguments, store)
        found = retrieve(arguments.question, plan, store)
    excerpts = compress(arguments.question, found, CompressPolicy(max_tokens=64 * max(1, len(found))))
    answer = package(arguments.question, found, excerpts)
    if arguments.json:
        sys.stdout.write(f"{json.dumps({'mode': plan.mode, 'fusion': plan.fusion, **answer}, ensure_ascii=False)}\n")
    else:
        sys.stdout.writelines(_lines(answer))
    return 0


def _opened(arguments: argparse.Namespace) -> AbstractContextManager[BaseSearcher]:
    if arguments.table is None:
        return open_store(arguments)
    arguments.embedder = arguments.embedder or "hashing"
    names = {name: value for name in _COLUMNS if (value := getattr(arguments, name)) is not None}
    return attach(arguments.dsn, make_embedder(arguments), arguments.table, **names)


def _plan(arguments: argparse.Namespace, store: BaseSearcher) -> RetrievalPlan:
    has_vectors = arguments.table is None or arguments.vector is not None
    knows_meanings = arguments.fusion or "fusion" in store.settings or not store.embedder.name.startswith("hashing")
    where: dict[str, Any] = {}
    for condition in arguments.where or ():
        name, is_given, value = condition.partition("=")
        if not is_given:
            raise ConfigError(f"--where {condition}: allowed is NAME=VALUE")
        with suppress(ValueError):
            value = json.loads(value)
        where[name] = value
    options = {
        "mode": arguments.mode or ("hybrid" if has_vectors and knows_meanings else "lexical"),
        "k": 5 if arguments.k is None else check_count("-k", arguments.k, low=1, high=1000),
        "candidate_pool": max(50, arguments.k or 0),
        "fusion": arguments.fusion or ("fitted" if "fusion" in store.settings else "rrf"),
        "filters": {"metadata": where},
    }
    return RetrievalPlan.model_validate(options)


def _lines(answer: dict[str, Any]) -> Iterator[str]:
    start, end = ("\x1b[1m", "\x1b[0m") if sys.stdout.isatty() else ("*", "*")
    wanted = {term_of(word) for word in _WORD.findall(answer["query"].lower())} - {""}

    def marked(word: re.Match[str]) -> str:
        return f"{start}{word[0]}{end}" if term_of(word[0].lower()) in wanted else word[0]

    if not answer["results"]:
        yield "no chunk matches\n"
    for result in answer["results"]:
        metadata = result["metadata"]
        headings = metadata.get("headings") or ([metadata["title"]] if "title" in metadata else [])
        page = [f"page {metadata['page']}"] if "page" in metadata else []
        place = " > ".join([*headings, *page])
        scores = ", ".join(f"{name} {score:.3g}" for name, score in result["sources"].items())
        yield f"{result['rank']}. {result['doc_id']}{f'  {place}' if place else ''}  ({scores})\n"
        text = " ... ".join(excerpt["text"] for excerpt in result["excerpts"]) or result["content"]
        yield f"   {_WORD.sub(marked, ' '.join(text.split())[:400])}\n"


def _fit(store: BaseSearcher, file: Path) -> int:
    fusion, rows = fit(store, read_questions(file))
    sys.stdout.write(f"{'':<24}{'top 1':>8}{'top 3':>8}{'nDCG@10':>9}\n")
    for name, row in rows.items():
        sys.stdout.write(f"{name:<24}{row.top1:>8.3f}{row.top3:>8.3f}{row.ndcg:>9.3f}\n")
    if isinstance(store, BaseStore):
        store.save_settings({"fusion": fusion})
        sys.stdout.write(f"kept with the collection: {json.dumps(fusion)}\n")
    return 0
