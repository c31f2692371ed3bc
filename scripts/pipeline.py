"""python scripts/pipeline.py dataset=demo rerank_stage=budgeted budget=tight: a collection through the prompt pipeline.

Every option of run.py holds (python scripts/pipeline.py --help lists them): estimator, scheduler, reranker and budget
are the ReRanker's where rerank_stage=budgeted; llm=local gives the stages a language model. The script measures each
view, writes a run folder as run.py does, and logs it.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from experiments.cli.main import main

if __name__ == "__main__":
    sys.exit(main("pipeline"))
