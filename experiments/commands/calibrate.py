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
from pathlib import Path

from experiments.commands import add_overrides
from experiments.commands._recorded import check_data_options, recorded
from ragtune.core.errors import ConfigError


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
    import numpy as np

    from experiments.config.compose import compose
    from experiments.label.plan import both_orders, verdict_of
    from experiments.replay.build import load_dataset
    from experiments.report.study import file_stem
    from ragtune.rerankers.calibration import Judged, fit
    from ragtune.rerankers.replay import load_table
    from ragtune.rerankers.scale import ScoreScale

    check_data_options(arguments.overrides, "calibrate tries no policy")
    config = compose(arguments.overrides)
    dataset = load_dataset(config)
    qrels = dataset.qrels
    if not qrels:
        raise ConfigError("the collection has no judgments: name some, dataset.qrels=FILE; ragtune label makes some")
    file = arguments.out or Path("results", "calibration", f"{file_stem(dataset.name)}.json")
    file.parent.mkdir(parents=True, exist_ok=True)
    judged_only = arguments.judged_only or verdict_of(config) is not None
    config = recorded(config, file.parent, {}, yes=arguments.yes)
    table = load_table(config["reranker"]["scores"], config["reranker"]["scale"])
    if table.scale is ScoreScale.RANK:
        raise ConfigError("reranker.scale=rank: a place says nothing beyond its query; scores are needed")
    rows = [
        (score, qrels[query_id].get(doc_id, 0) >= arguments.relevant, number)
        for number, (query_id, candidates, _) in enumerate(both_orders(config))
        if query_id in qrels
        for doc_id, score in table.scores(query_id, candidates).items()
        if not judged_only or doc_id in qrels[query_id]
    ]
    scores, grades, queries = np.array(rows, dtype=float).reshape(-1, 3).T
    made = fit(Judged(scores, grades, queries), arguments.model or table.manifest.model or file.stem, dataset.name)
    file.write_text(made.model_dump_json(indent=1) + "\n", encoding="utf-8")
    print(
        f"{made.model}, {made.method}: {made.documents:,} documents, {made.queries} queries, {made.relevant:,} relevant"
    )
    print(f"{'on held-out queries':<34}{'before':>8}{'after':>8}")
    for words, *errors in zip(("expected calibration error", "Brier score"), made.before, made.after, strict=True):
        print("  {:<32}{:>8.3f}{:>8.3f}".format(words, *errors))
    if made.after.ece >= made.before.ece:
        print("The curve is no better than the scores: judge more documents.")
    print(f"{file}; next: ragtune serve --model MODEL --calibration {file}")
    return 0
