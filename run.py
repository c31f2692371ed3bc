"""python run.py estimator=uncertainty budget=tight"""

import sys
from pathlib import Path

# The root must not be importable: datasets/ would shadow the Hugging Face package of that name.
root = str(Path(__file__).resolve().parent)
sys.path[:] = [entry for entry in sys.path if entry not in ("", root)]

from experiments.cli import main  # noqa: E402

if __name__ == "__main__":
    sys.exit(main())
