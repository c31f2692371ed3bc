"""python scripts/conformance.py: do all estimators and schedulers decide as the golden vectors say?

Exit code 0 if they do, 1 if not. ``--update`` pins what the code decides now (review the diff: a changed decision is
a changed spec version).
"""

from __future__ import annotations

import argparse
import json
import sys

from experiments.golden import DECISIONS, FIXTURES, SPEC, decide, differences


def main() -> int:
    """Check or pin."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--update", action="store_true", help="pin today's decisions")
    arguments = parser.parse_args()
    if arguments.update:
        text = json.dumps(decide(), indent=1, sort_keys=True)
        (FIXTURES / DECISIONS).write_text(text + "\n", encoding="utf-8")
    found = differences()
    sys.stdout.writelines(f"{line}\n" for line in found)
    sys.stdout.write(f"conformance with spec {SPEC}: {'failed' if found else 'passed'}\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
