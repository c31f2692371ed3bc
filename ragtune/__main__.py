"""``python -m ragtune``: the command ``ragtune``, where it is not on the path."""

import sys

from ragtune.adapters.cli import main

if __name__ == "__main__":
    sys.exit(main())
