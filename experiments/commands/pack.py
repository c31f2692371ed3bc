"""Write a collection, its candidates and its recorded scores into one file, to publish and to replay elsewhere.

    ragtune pack --out packs --licence LICENSE dataset=demo
    ragtune run "dataset=pack:$(ls packs/*.tar)"

The file is named by its SHA-256, and the same collection gives the same bytes. It is a plain tar, as PyTerrier's
artifacts are. A reader refuses a file that was changed.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from experiments.commands import add_overrides


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the command."""
    parser.add_argument("--out", type=Path, required=True, help="folder of the file")
    parser.add_argument("--licence", type=Path, required=True, help="text file: who may use the content, and how")
    parser.add_argument("--no-texts", action="store_true", help="leave the documents' texts out; ids stay")
    add_overrides(parser, "dataset, retriever and recorded scores, as for ragtune run")


def run(arguments: argparse.Namespace) -> int:
    """Write the file and print its name."""
    from experiments.config.compose import compose
    from experiments.prepare.pack import write_pack

    config = compose(arguments.overrides)
    file = write_pack(config, arguments.out, arguments.licence, texts=not arguments.no_texts)
    sys.stdout.write(f"{file}\n")
    return 0
