"""Replays recorded first stages."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from ragtune.core.arrays import IntArray
from ragtune.core.component import declare_files
from ragtune.core.errors import ConfigError, DatasetError
from ragtune.core.interfaces import BaseFusion, BaseRetriever
from ragtune.core.request.context import ORIGINAL, RAGtuneContext
from ragtune.core.types import ScoredDocument
from ragtune.data.corpus import Corpus
from ragtune.data.join import joined
from ragtune.data.runs.run import Run
from ragtune.data.runs.runfile import read_run, source_name


@declare_files(reads=["paths"])
class RunsRetriever(BaseRetriever):
    """Answers from one or more files of ranked documents; each file's stem is a named source of their provenance."""

    def __init__(
        self,
        corpus: Corpus,
        paths: str | Sequence[str],
        fusion: BaseFusion | None = None,
    ) -> None:
        self._corpus = corpus
        files = [Path(paths)] if isinstance(paths, (str, Path)) else [Path(path) for path in paths or ()]
        if not files:
            raise ConfigError("retriever.paths is empty: give at least one run file")
        names = [source_name(file) for file in files]
        if len(set(names)) != len(names):
            raise ConfigError(f"run files {names} share a name: source names must differ")
        if len(files) > 1 and fusion is None:
            raise ConfigError(f"{len(files)} runs need a fusion: give retriever.fusion")
        self._fusion = fusion if len(files) > 1 else None
        self._runs = {name: (file, *self._read(file)) for name, file in zip(names, files, strict=True)}

    def retrieve(self, context: RAGtuneContext, top_k: int) -> Sequence[ScoredDocument]:
        if context.round != ORIGINAL:
            raise ConfigError(
                f"retriever 'runs' replays recorded queries and cannot answer the rewrite {context.query!r}: "
                "use reformulator=identity, or a live retriever"
            )
        lists = {}
        for name, (_, run, places) in self._runs.items():
            documents, scores = run.best(context.query_id, top_k)
            lists[name] = self._corpus.hits_at(places[documents].tolist(), scores, name)
        if self._fusion is None:
            return next(iter(lists.values()))
        return self._fusion.fuse(lists)

    def recorded_queries(self) -> Mapping[str, Collection[str]]:
        return {f"run {file.name}": run for file, run, _ in self._runs.values()}

    def _read(self, file: Path) -> tuple[Run, IntArray]:
        """The run, and the positions of its documents in the corpus."""
        run = read_run(file)
        places = self._corpus.places(run.doc_ids)
        if (places < 0).any():
            known = dict.fromkeys(self._corpus.doc_ids)
            join = joined(f"documents of run file {str(file)!r}", run.doc_ids, "the corpus", known).require_any()
            raise DatasetError(f"{join.missing} {join.gap}")
        return run, places
