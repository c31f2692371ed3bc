"""The same as ``ragtune ingest``, whatever is installed."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from experiments.commands import main

if __name__ == "__main__":
    sys.exit(main("ingest"))
