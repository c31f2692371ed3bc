"""python run.py estimator=uncertainty budget=tight, the same as ``ragtune run``, whatever is installed."""

import sys
from pathlib import Path

# The code beside this file, in worker processes too, whatever is installed or on PYTHONPATH.
sys.path.insert(0, str(Path(__file__).resolve().parent))

from experiments.commands import main

if __name__ == "__main__":
    sys.exit(main("run"))
