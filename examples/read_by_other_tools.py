# ---
# jupyter:
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
# # Read a run with ir_measures, ranx and PyTerrier
#
# `run.trec` of a run's folder is a TREC run, and the judgments of a collection are a file of three columns. Other tools
# read both without conversion. Here each computes nDCG@10 of the same run, and they agree with `summary.json`.

# %%
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

os.environ["NUMBA_DISABLE_JIT"] = "1"  # ranx compiles for 20 s otherwise, which pays for large runs only

import ir_measures
import pandas as pd
import pyterrier as pt
import ranx
from ir_measures import nDCG

import ragtune

folder = Path(tempfile.mkdtemp())
subprocess.run(
    [sys.executable, "-m", "ragtune", "run", "budget=20", "tracking=none", f"hydra.run.dir={folder}"],
    check=True,
    capture_output=True,
)
run = folder / "run.trec"
print(f"summary.json  {json.loads((folder / 'summary.json').read_text())['measures']['nDCG@10']:.4f}")

# %% [markdown]
# ## ir_measures

# %%
judged = pd.read_csv(Path(ragtune.__file__).parent / "data" / "demo" / "qrels" / "test.tsv", sep="\t", dtype=str)
judged = judged.set_axis(["query_id", "doc_id", "relevance"], axis=1).astype({"relevance": int})
of_ir_measures = ir_measures.calc_aggregate([nDCG @ 10], judged, ir_measures.read_trec_run(str(run)))[nDCG @ 10]
print(f"ir_measures   {of_ir_measures:.4f}")

# %% [markdown]
# ## ranx
#
# `ragtune export --ranx` writes the same ranking as JSON, which `Run.from_file` reads too.

# %%
grades = {query: own.set_index("doc_id")["relevance"].to_dict() for query, own in judged.groupby("query_id")}
qrels = ranx.Qrels(grades)
print(f"ranx          {ranx.evaluate(qrels, ranx.Run.from_file(str(run), kind='trec'), 'ndcg@10'):.4f}")

# %% [markdown]
# ## PyTerrier
#
# The run is a frame of results, on which any transformer works: here the first five documents of each query. The ranks
# of a TREC run begin with 1, PyTerrier's with 0, so that `add_ranks` counts them again.

# %%
results = pt.model.add_ranks(pt.io.read_results(str(run)))
topics = results[["qid"]].drop_duplicates().assign(query="")
frame = judged.set_axis(["qid", "docno", "label"], axis=1)
of_pyterrier = pt.Evaluate(results, frame, metrics=["ndcg_cut_10"])["ndcg_cut_10"]
print(f"PyTerrier     {of_pyterrier:.4f}")
print(f"the first five documents of each query: {len((pt.Transformer.from_df(results) % 5)(topics))} rows")

# %% [markdown]
# A reranker in PyTerrier's pipelines, with a budget: see [the page](../docs/howto/frameworks/pyterrier.md). Files for
# TIRA, with hardware and energy in ir_metadata, and for Hugging Face: see [runs](../docs/howto/runs.md).
