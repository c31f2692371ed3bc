"""``python -m ragtune``: the command ``ragtune``, where it is not on the path."""

import sys

from ragtune.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
