"""Score tables: a real reranker's scores of (query, document) pairs, with their costs (rule C2)."""

from __future__ import annotations

import math
import warnings
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import groupby
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ragtune.core.arguments import check_choice, check_member
from ragtune.core.errors import DatasetError, ScoreTableError
from ragtune.core.plain import quoted
from ragtune.core.request.context import RAGtuneContext
from ragtune.data.files.textfile import read_json
from ragtune.data.join import form_hint
from ragtune.data.runs.run import Run
from ragtune.data.runs.runfile import read_run
from ragtune.rerankers.models.architecture import Architecture
from ragtune.rerankers.scale import CALIBRATIONS, Sample, ScoreScale

TIES = ("first_stage", "trec_eval")
"""The order of equal scores: the first stage's (rule O4), or descending ids, as trec_eval orders a run file."""


class ScoreManifest(BaseModel):
    """Facts about a table, from ``<table>.manifest.json`` beside it; every field may be unknown (None).

    Attributes:
        scale: scale of the numbers.
        model, revision: the reranker and its version.
        text_hash: digest of the corpus that was scored.
        tokens_per_doc, ms_per_doc, ms_per_call, usd_per_doc: mean cost of a pair and of a call.
        architecture: size of the model, for FLOPs.
        docs_per_search_unit, usd_per_search_unit: a service's bill of a call.
        source: where the scores come from.

    Examples:
        >>> from ragtune.rerankers.score_table import ScoreManifest
        >>> ScoreManifest(scale="log_prob", model="castorini/monot5-base-msmarco", ms_per_doc=12.0).scale.value
        'log_prob'
    """

    scale: ScoreScale | None = None
    model: str | None = None
    revision: str | None = None
    text_hash: str | None = None
    tokens_per_doc: float | None = Field(default=None, ge=0)
    ms_per_doc: float | None = Field(default=None, ge=0)
    ms_per_call: float | None = Field(default=None, ge=0)
    usd_per_doc: float | None = Field(default=None, ge=0)
    architecture: Architecture | None = None
    docs_per_search_unit: int | None = Field(default=None, ge=1)
    usd_per_search_unit: float | None = Field(default=None, ge=0)
    source: str | None = None

    model_config = ConfigDict(extra="allow", protected_namespaces=(), allow_inf_nan=False)


class ScoreTable:
    """Calibrated scores by query and document.

    Args:
        path: a TREC run, or a table with columns for query id, document id and score, see
            :func:`ragtune.data.runs.runfile.read_run`.
        scale: scale of the numbers; None takes the manifest's, else ``identity``.
        ties: order of equal scores: ``first_stage`` (rule O4), or ``trec_eval`` (descending document ids).

    Attributes:
        doubts: warnings, in words that follow a number, with that number: a scale that is probably another one.

    Raises:
        ScoreTableError: if the file is missing or malformed, or holds a number that the scale does not allow.
        ConfigError: on an unknown scale or tie rule.

    Examples:
        >>> from pathlib import Path
        >>> from tempfile import TemporaryDirectory
        >>> from ragtune.rerankers.score_table import ScoreTable
        >>> with TemporaryDirectory() as folder:
        ...     file = Path(folder) / "monot5.run"
        ...     _ = file.write_text("q1 Q0 d1 1 0.9 monot5\\nq1 Q0 d2 2 0.1 monot5\\n")
        ...     table = ScoreTable(file, scale="identity")
        ...     table.scores("q1", ["d1"])
        {'d1': 0.9}
    """

    def __init__(self, path: str | Path, scale: ScoreScale | str | None = None, ties: str = "first_stage") -> None:
        self.ties = check_choice("ties", ties, TIES)
        self.path = Path(path)
        self.manifest = _read_manifest(self.path)
        given = None if scale is None else check_member(ScoreScale, "scale", scale)
        self.scale = given or self.manifest.scale or ScoreScale.IDENTITY
        self._run = _read_pairs(self.path)
        self.doubts: Mapping[str, int] = {}
        self._check_scale()

    def __len__(self) -> int:
        return sum(len(self._run.scores(query_id)) for query_id in self._run)

    def recorded_queries(self) -> Mapping[str, Collection[str]]:
        """The queries with scores, under the table's name in messages."""
        return {f"score table {self.path.name}": self._run}

    def has(self, doc_id: str, context: RAGtuneContext) -> bool:
        """Whether the table has the document for the query of the request."""
        return doc_id in self.of_query(context.query_id)

    def scores(self, query_id: str, doc_ids: Iterable[str]) -> dict[str, float]:
        """The calibrated scores of some documents of a query, in [0, 1].

        Raises:
            ScoreTableError: naming the first pair that the table lacks, and how many it holds.
        """
        known, asked = self.of_query(query_id), list(doc_ids)
        try:
            return {doc_id: known[doc_id] for doc_id in asked}
        except KeyError as missing:
            raise ScoreTableError(
                f"score table {str(self.path)!r} holds no score for query {query_id!r} and document "
                f"{missing.args[0]!r}: replay needs every pair that a policy may ask for; {self._held(query_id, asked)}"
            ) from None

    def _held(self, query_id: str, asked: Sequence[str]) -> str:
        """How many of the requested documents have scores, and how the others may be spelled."""
        known = self._run.scores(query_id)
        if not known:
            hint = form_hint([query_id], self._run)
            return f"it holds no score of this query, and {len(self)} of {len(self._run)} others{hint}"
        lacking = [doc_id for doc_id in asked if doc_id not in known]
        hint = form_hint(lacking, [doc_id for doc_id in known if doc_id not in set(asked)])
        return (
            f"of this query it holds {len(known)} scores, and of the {len(asked)} documents asked for "
            f"{len(asked) - len(lacking)}{hint}"
        )

    @lru_cache(maxsize=1024)  # noqa: B019 -- of recent queries; those of all queries may not fit into memory
    def of_query(self, query_id: str) -> Mapping[str, float]:
        """All calibrated scores of a query; empty if the table does not know it."""
        scores = self._run.scores(query_id)
        if self.scale is ScoreScale.RANK:
            scores = _by_rank(scores)
        elif self.scale is not ScoreScale.IDENTITY:
            calibrate, *_ = CALIBRATIONS[self.scale]
            scores = dict(zip(scores, map(calibrate, scores.values()), strict=True))
        return _by_doc_id(scores) if self.ties == "trec_eval" else scores

    def _check_scale(self) -> None:
        """Refuse scores that cannot be on the declared scale, and warn if they are probably on another one."""
        if self.scale is ScoreScale.RANK or not len(self):
            return
        scores, best = self._run.score_columns()
        sample = Sample(scores, best)
        self._require_allowed(sample, float(scores.min()), float(scores.max()))
        found = sample.against(self.scale, "reranker.scale")
        if found is None:
            return
        words = f"reranker.scale={self.scale.value}: almost all scores of {quoted(str(self.path))} are {found.words}"
        if found.is_sure:
            raise ScoreTableError(words)
        self.doubts = {f"scores with a doubtful scale, {words}": len(self)}
        warnings.warn(words, stacklevel=4)

    def _require_allowed(self, sample: Sample, lowest: float, highest: float) -> None:
        _, low, high = CALIBRATIONS[self.scale]
        if low <= lowest and highest <= high:
            return
        pairs = ((query_id, *pair) for query_id in self._run for pair in self._run.scores(query_id).items())
        query_id, doc_id, score = next(pair for pair in pairs if not low <= pair[2] <= high)
        pair = f"({quoted(query_id)}, {quoted(doc_id)})"
        where = f"score {score!r} of {pair} in {str(self.path)!r}: scale {self.scale.value!r} "
        fits = sample.looks_like()
        if fits is self.scale:
            raise ScoreTableError(f"{where}allows [{low}, {high}], where almost all other scores are: correct it")
        others = ", ".join(scale.value for scale in ScoreScale if scale not in (self.scale, fits))
        raise ScoreTableError(
            f"{where}allows [{low}, {high}]; these scores look like reranker.scale={fits.value}; other scales are "
            f"{others}"
        )


def _by_rank(pairs: Mapping[str, float]) -> dict[str, float]:
    scores: dict[str, float] = {}
    for _, tied in groupby(sorted(pairs, key=pairs.__getitem__, reverse=True), key=pairs.__getitem__):
        doc_ids = list(tied)
        mean_rank = len(scores) + (1 + len(doc_ids)) / 2
        scores |= dict.fromkeys(doc_ids, 1.0 / (1.0 + mean_rank))
    return scores


def _by_doc_id(scores: Mapping[str, float]) -> dict[str, float]:
    """Separate equal scores by the smallest possible steps, with the larger document id above."""
    best_first = sorted(sorted(scores, reverse=True), key=scores.__getitem__, reverse=True)
    apart: dict[str, float] = {}
    # Downwards from the upper half and upwards from the lower one, so that all stay in [0, 1].
    last = math.inf
    for doc_id in best_first:
        if scores[doc_id] > 0.5:
            apart[doc_id] = last = min(scores[doc_id], math.nextafter(last, 0.0))
    last = -math.inf
    for doc_id in reversed(best_first):
        if scores[doc_id] <= 0.5:
            apart[doc_id] = last = max(scores[doc_id], math.nextafter(last, 1.0))
    return apart


def manifest_of(path: Path) -> Path | None:
    """Find ``<table>.manifest.json`` beside a table, or None; ``x.run`` and ``x.run.gz`` share one."""
    for name in (path.name, path.name.removesuffix(".gz")):
        manifest = path.with_name(f"{name}.manifest.json")
        if manifest.is_file():
            return manifest
    return None


def _read_manifest(path: Path) -> ScoreManifest:
    manifest = manifest_of(path)
    if manifest is None:
        return ScoreManifest()
    try:
        return ScoreManifest.model_validate(read_json(manifest.read_bytes()))
    except ValidationError as error:
        first = error.errors()[0]
        what = f"{'.'.join(map(str, first['loc']))}={quoted(first['input'])}: {first['msg']}".removeprefix("=")
    except ValueError as error:
        what = str(error)
    raise ScoreTableError(f"malformed manifest {str(manifest)!r}: {what}")


def _read_pairs(path: Path) -> Run:
    try:
        return read_run(path, needs_scores=True)
    except DatasetError as error:
        raise ScoreTableError(f"score table: {error}") from None
