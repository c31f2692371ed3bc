r"""Turn a reranker's scores into probabilities of relevance.

It takes the options of ragtune advise. Recorded scores of judged queries give the curve; a live reranker scores every
candidate once first. Candidates without a judgment count as not relevant, except with grades of ragtune label:

    ragtune calibrate dataset=beir dataset.path=DIR reranker.scores=DIR/ce.run \
        retriever=runs retriever.paths=DIR/bm25.run
    ragtune calibrate dataset.qrels=OUT/qrels.tsv     # the options of ragtune label, and its grades
    ragtune serve --model MODEL --calibration results/calibration/NAME.json

Prints the calibration error on held-out queries, and writes one file of JSON.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.commands import add_overrides
from experiments.commands._recorded import check_data_options, recorded
from ragtune.core.arguments import check_count
from ragtune.core.errors import ConfigError

if TYPE_CHECKING:
    from experiments.datasets.dataset import Qrels
    from ragtune.facade.calibration import JudgedPairs
    from ragtune.rerankers.score_table import ScoreTable


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the command."""
    add_overrides(parser, "collection, first stage and reranker, as for ragtune advise")
    parser.add_argument("--relevant", metavar="GRADE", type=int, default=1, help="lowest grade of a relevant document")
    parser.add_argument("--judged-only", action="store_true", help="leave candidates without a judgment out")
    parser.add_argument("--model", metavar="NAME", help="name of the model as of ragtune serve; default: of the scores")
    parser.add_argument("--out", metavar="FILE", type=Path, help="default: results/calibration/NAME.json")
    parser.add_argument("--yes", action="store_true", help="score with a live reranker without being asked")


def run(arguments: argparse.Namespace) -> int:
    """Fit the curve, print its errors and write it."""
    from experiments.config.compose import compose
    from experiments.label.verdict import verdict_of
    from experiments.replay.build import build_session, load_dataset
    from experiments.report.study import file_stem
    from ragtune.facade.calibration import fit

    check_data_options(arguments.overrides, "calibrate tries no policy")
    check_count("--relevant", arguments.relevant, low=1)
    config = compose(arguments.overrides)
    dataset = load_dataset(config)
    if not dataset.qrels:
        raise ConfigError("the collection has no judgments: name some, dataset.qrels=FILE; ragtune label makes some")
    judged_only = arguments.judged_only or verdict_of(config) is not None
    file = arguments.out or Path("results", "calibration", f"{file_stem(dataset.name)}.json")
    file.parent.mkdir(parents=True, exist_ok=True)
    config = recorded(config, file.parent, {}, yes=arguments.yes)
    table = _table(build_session(config).rerankers)
    pairs = _judged(config, dataset.qrels, arguments.relevant, table, judged_only=judged_only)
    name = arguments.model or config["reranker"].get("model") or table.manifest.model or table.path.name
    made = fit(pairs, name, dataset.name)
    made.save(file)
    print(
        f"{made.model}, {made.method}: {made.pairs:,} documents of {made.queries} queries, {made.relevant:,} relevant"
    )
    print(f"{'held-out queries':<34}{'before':>8}{'after':>8}")
    for error, words in (("ece", "expected calibration error"), ("brier", "Brier score")):
        print(f"  {words:<32}{getattr(made.before, error):>8.3f}{getattr(made.after, error):>8.3f}")
    if made.before and made.after and made.after.ece >= made.before.ece:
        print("On held-out queries the curve is no better than the scores: judge more documents.")
    print(f"{file}; next: ragtune serve --model MODEL --calibration {file}")
    return 0


def _judged(
    config: Mapping[str, Any], qrels: Qrels, relevant: int, table: ScoreTable, *, judged_only: bool
) -> JudgedPairs:
    """The scores of the first stage's candidates, and whether each has at least that grade."""
    import numpy as np

    from experiments.label.plan import both_orders
    from ragtune.facade.calibration import JudgedPairs

    rows = [
        (score, qrels[query_id].get(doc_id, 0) >= relevant, number)
        for number, (query_id, candidates, _) in enumerate(both_orders(config))
        if query_id in qrels
        for doc_id, score in table.scores(query_id, candidates).items()
        if not judged_only or doc_id in qrels[query_id]
    ]
    scores, grades, queries = np.array(rows, dtype=float).reshape(-1, 3).T
    return JudgedPairs(scores, grades, queries.astype(int))


def _table(rerankers: Mapping[str, Any]) -> ScoreTable:
    from ragtune.rerankers.replay import ReplayReranker
    from ragtune.rerankers.scale import ScoreScale

    found = next(iter(rerankers.values()))
    if not isinstance(found, ReplayReranker) or found.table.scale is ScoreScale.RANK:
        raise ConfigError(
            "allowed are scores of pairs: ranks of a reranker that compares mean nothing beyond their query"
        )
    return found.table
