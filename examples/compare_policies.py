# ---
# jupyter:
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
# # Compare three policies on your data
#
# Which policy finds the most for 20 reranked documents a query? The shipped collection answers at once; put your own
# in its place in the next cell.

# %%
import subprocess
import sys
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd

DATA = ["dataset=demo"]
# Yours, in BEIR's layout with a recorded first stage and recorded scores (docs/howto/own-data.md has other forms):
# DATA = ["dataset=beir", "dataset.path=DIR", "retriever=runs", "retriever.paths=DIR/runs/bm25.run",
#         "reranker.scores=DIR/scores/model.run", "reranker.scale=logit"]
BUDGET = "budget=20"  # or 3calls, 0.002usd, 500ms, 4000tokens
POLICIES = ["fixed_depth", "gar", "uncertainty"]

# %% [markdown]
# One sweep: a job a policy, every query replayed. Without `tracking=none` MLflow gets it as well.

# %%
out = Path(tempfile.mkdtemp())
sweep = ["sweep", f"experiment={','.join(POLICIES)}", BUDGET, *DATA, "tracking=none", f"hydra.sweep.dir={out}"]
done = subprocess.run([sys.executable, "-m", "ragtune", *sweep], check=True, capture_output=True, text=True)
table = pd.read_csv(out / "sweep.csv").set_index("experiment")

# %% [markdown]
# `diff` is the difference in nDCG@10 from fixed depth under the same budget, with its 95% interval; `p_holm` is the p
# of a paired randomisation test, corrected for the three comparisons. Fixed depth against itself differs by nothing.

# %%
print(table[["nDCG@10", "docs", "diff", "diff_low", "diff_high", "p_holm"]].round(3).to_string())

# %% [markdown]
# Where does each policy get its quality from? Every job's `curve.csv` has the mean after every reranked document.

# %%
figure, axes = plt.subplots(figsize=(7, 4))
for name, job in table["job"].items():
    curve = pd.read_csv(out / str(job) / "curve.csv")
    axes.plot(curve["documents_mean"], curve["nDCG@10"], label=name)
axes.set(xlabel="documents reranked a query", ylabel="nDCG@10")
axes.legend()
plt.show()

# %% [markdown]
# And on which queries does it differ? `per_query.parquet` has a row a query.

# %%
jobs = {name: pd.read_parquet(out / str(job) / "per_query.parquet") for name, job in table["job"].items()}
values = pd.DataFrame({name: rows.set_index("query_id")["nDCG@10"] for name, rows in jobs.items()})
difference = values["uncertainty"] - values["fixed_depth"]
print(f"better on {(difference > 0).sum()}, worse on {(difference < 0).sum()} of {len(values)} queries")
print(difference.sort_values().round(3).iloc[[0, 1, -2, -1]].to_string(header=False))
