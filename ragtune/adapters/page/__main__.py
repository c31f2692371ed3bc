"""``python -m ragtune.adapters.page``: the page under its old name."""

import sys

from ragtune.superprompt.page.__main__ import main

if __name__ == "__main__":
    sys.exit(main())
