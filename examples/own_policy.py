# ---
# jupyter:
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
# # A policy of your own in 30 lines
#
# An estimator says after every batch how good each candidate probably is; a scheduler spends the budget on the best.
# The one in `feedback.py` believes that documents which share terms with the best ones so far are good too, an old idea
# of relevance feedback (Rocchio 1971).

# %%
import inspect
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import feedback

from ragtune import BudgetedReranker
from ragtune.facade.policies import Policy
from ragtune.schedulers.greedy import GreedyScheduler

print(inspect.getsource(feedback.FeedbackEstimator))

# %% [markdown]
# ## In your program
#
# Any estimator and scheduler make a `Policy`. The reranker here is a function; it may read five of the six candidates.


# %%
def reranker(query: str, texts: list[str]) -> list[float]:
    return [0.9 if "degrees" in text else 0.1 for text in texts]


candidates = {
    "Tea is a plant from China.": 8.1,
    "Green tea wants 70 to 80 degrees.": 7.7,
    "A pot of tea a day.": 7.2,
    "Coffee is best at 92 degrees.": 3.0,
    "Kettles boil.": 1.2,
    "Oolong wants 90 degrees.": 0.0,
}
policy = Policy(feedback.FeedbackEstimator(best=1), GreedyScheduler(batch_size=1))
budgeted = BudgetedReranker(reranker, docs=5, policy=policy)
for document in budgeted.rank("tea temperature", list(candidates), scores=list(candidates.values())):
    print(f"{document.score:.2f} {'read  ' if document.reranked else 'unread'} {document.document}")

# %% [markdown]
# ## In the harness
#
# Is it any good? `_target_` names a class of a package that `RAGTUNE_COMPONENTS` allows: here `feedback`, in the folder
# of `PYTHONPATH`. The table has it beside fixed depth under the same budget, on the shipped collection.

# %%
estimator = ["estimator=baseline", "estimator._target_=feedback.FeedbackEstimator", "+estimator.best=3"]
options = [*estimator, "budget=20", "tracking=none", f"hydra.run.dir={tempfile.mkdtemp()}"]
here = str(Path(feedback.__file__).resolve().parent)
done = subprocess.run(
    [sys.executable, "-m", "ragtune", "run", *options],
    env={**os.environ, "PYTHONPATH": here, "RAGTUNE_COMPONENTS": "feedback", "FORCE_COLOR": ""},
    check=True,
    capture_output=True,
    text=True,
)
print(done.stdout[: done.stdout.index("charged per query")])

# %% [markdown]
# Next: give it a file in `ragtune/estimators/` and one in `conf/estimator/`, and the contract suites test it under
# every scheduler ([a new component](../docs/howto/new-component.md)).
