"""What the parent run of a sweep shows: its best job's figures, its counts and its failures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from experiments.evaluate.summary import Summary
from experiments.publish.described import allowed, policy_title
from experiments.publish.runs_view import HEADLINE


@dataclass(frozen=True)
class SweepFigures:
    """The jobs of a sweep as its parent run counts them.

    Attributes:
        jobs: summaries of the finished jobs, by the name of the job.
        failed: number of failed jobs.
        planned: number of planned jobs; 0 where a sampler decides as it goes.
        partial: what an interrupted sweep has finished, in words; empty if it ran to its end.
    """

    jobs: Mapping[str, Summary] = field(default_factory=dict)
    failed: int = 0
    planned: int = 0
    partial: str = ""

    def metrics(self) -> dict[str, float]:
        """The best job's measures and documents, of each collection if there are several, and the counts of jobs."""
        found: dict[str, float] = {}
        best = dict(self._best())
        for _, job in best.values():
            where = f"{allowed(job.dataset)}/" if len(best) > 1 else ""
            found |= {f"{where}{allowed(name)}": value for name, value in job.measures.items()}
            found[f"{where}{HEADLINE}"] = job.headline
            found[f"{where}charged_docs"] = job.cost_per_query.charged["docs"]
            found[f"{where}failed_batches"] = float(job.failures.batches_failed)
        found |= {"jobs_finished": float(len(self.jobs)), "jobs_failed": float(self.failed)}
        if self.planned:
            found["jobs_planned"] = float(self.planned)
        found["jobs_untracked"] = float(sum(job.mlflow_run_id is None for job in self.jobs.values()))
        return found

    def tags(self) -> dict[str, str]:
        """The best job by name, the failures, and whether the table is partial."""
        lost = [f"{self.failed} jobs failed"] if self.failed else []
        untracked = sum(job.mlflow_run_id is None for job in self.jobs.values())
        lost += [f"{untracked} jobs not tracked"] if untracked else []
        batches = sum(job.failures.batches_failed for job in self.jobs.values())
        lost += [f"{batches} batches failed in finished jobs"] if batches else []
        best = "; ".join(f"job {name}: {policy_title(job)}, {job.dataset}" for name, job in dict(self._best()).values())
        found = {"failures": "; ".join(lost) or "none", "partial": self.partial or "no"}
        measures = {next(iter(job.measures)) for job in self.jobs.values()}
        found |= {HEADLINE: ", ".join(sorted(measures))} if measures else {}
        return found | ({"best": best} if best else {})

    def _best(self) -> Iterator[tuple[str, tuple[str, Summary]]]:
        """The first of the jobs with the highest headline, by collection."""
        for dataset in dict.fromkeys(job.dataset for job in self.jobs.values()):
            there = [(name, job) for name, job in self.jobs.items() if job.dataset == dataset]
            yield dataset, max(there, key=lambda named: named[1].headline)
