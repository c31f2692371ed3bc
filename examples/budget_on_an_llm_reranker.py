# ---
# jupyter:
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
# # Put a budget on a language model that reranks
#
# A language model that grades documents is a good reranker and an expensive one. Here it may cost so many dollars a
# query and no more. Needs the extra `llm`.
#
# Without `OPENAI_BASE_URL` a stand-in on this machine answers (`stand_in.py`), so the steps are real and the quality is
# that of a small embedding model. With it your server is asked, and every answer is kept: a second time costs nothing.

# %%
import json
import os
import tempfile
from pathlib import Path

import ir_measures
import numpy as np
import pandas as pd
import stand_in
from rank_bm25 import BM25Okapi

import ragtune
from ragtune import BudgetedReranker
from ragtune.data.text import terms
from ragtune.llm.client import LLMClient
from ragtune.llm.prompts import PromptLibrary
from ragtune.rerankers.llm.pointwise import LLMPointwiseReranker

demo = Path(ragtune.__file__).parent / "data" / "demo"
address = os.environ.get("OPENAI_BASE_URL")
model = os.environ.get("MODEL", "stand-in")
client = LLMClient(
    model=model,
    base_url=address or stand_in.start(demo),
    cache_dir="auto" if address else tempfile.mkdtemp(),  # answers are kept, and asked for once
    prices={model: {"prompt": 0.00015, "completion": 0.0006}},  # dollars per 1,000 tokens: your provider's
    concurrency=4,
)
llm = LLMPointwiseReranker(client, PromptLibrary(), max_answer_tokens=12)

# %% [markdown]
# ## One query
#
# `usd` is the limit of a query. A call is priced before it is made, with the longest answer it may give, and made only
# if that fits; `ranking.cost` is what was billed.

# %%
documents = ["Bread is baked at 220 degrees.", "Green tea wants water of 70 to 80 degrees.", "Tea is a plant."]
if address:  # the stand-in knows the shipped collection only
    print(BudgetedReranker(llm, usd=0.0005).rank("how hot should green tea be", documents)[0])

# %% [markdown]
# ## What is a dollar worth?
#
# The fifty queries of the shipped collection, BM25's top 50, under three limits. The baseline takes BM25's best in
# their order until the money is gone (`fixed_depth`); RAGtune's posterior learns from every grade which document to pay
# for next.


# %%
def rows(name):
    return [json.loads(line) for line in (demo / name).read_text(encoding="utf-8").splitlines()]


corpus = {row["_id"]: f"{row['title']} {row['text']}".strip() for row in rows("corpus.jsonl")}
queries = {row["_id"]: row["text"] for row in rows("queries.jsonl")}
judgments = pd.read_csv(demo / "qrels" / "test.tsv", sep="\t", names=["query_id", "doc_id", "relevance"], skiprows=1)

doc_ids, texts = list(corpus), list(corpus.values())
index = BM25Okapi([terms(text) for text in texts])
scores = {query_id: index.get_scores(terms(query)) for query_id, query in queries.items()}
found = {query_id: np.argsort(-row, kind="stable")[:50] for query_id, row in scores.items()}
jobs = [(queries[q], [texts[i] for i in found[q]], scores[q][found[q]].tolist()) for q in queries]


def outcome(policy, usd):
    reranker = BudgetedReranker(llm, usd=usd, policy=policy, batch_size=4)
    rankings = reranker.rank_many(jobs, top_k=10)
    run = [
        ir_measures.ScoredDoc(query_id, doc_ids[row[document.index]], -rank)
        for (query_id, row), ranking in zip(found.items(), rankings, strict=True)
        for rank, document in enumerate(ranking)
    ]
    return {
        "limit, $": usd,
        "policy": policy,
        "documents": sum(ranking.cost.docs for ranking in rankings) / len(rankings),
        "dollars": sum(ranking.cost.usd for ranking in rankings) / len(rankings),
        "dearest": max(ranking.cost.usd for ranking in rankings),
        "nDCG@10": ir_measures.calc_aggregate([ir_measures.nDCG @ 10], judgments, run)[ir_measures.nDCG @ 10],
    }


table = pd.DataFrame(
    outcome(policy, usd) for usd in (0.0001, 0.0002, 0.0004) for policy in ("fixed_depth", "uncertainty")
)
print(table.round(5).to_string(index=False))

# %% [markdown]
# `dearest` is the most that any of the fifty queries has cost: the limit holds for each of them, not on average.
# With a server of yours, `rank_many` sends four questions at once (`concurrency`), and a failed answer costs the
# document its grade, not its place ([language models under a budget](../docs/llm.md)).
