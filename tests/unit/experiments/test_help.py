"""What --help says."""

from __future__ import annotations

import yaml

from experiments.cli.help import help_text
from experiments.config.paths import CONF

DEFAULTS = yaml.safe_load((CONF / "config.yaml").read_text())["defaults"]
GROUPS = [group for entry in DEFAULTS if isinstance(entry, dict) for group in entry if " " not in group]


def test_every_choice_has_its_sentence_and_the_default_its_mark() -> None:
    shown = help_text("seed: 0")
    assert shown.endswith("seed: 0")
    assert max(map(len, shown.splitlines())) <= 120
    words = " ".join(shown.split())
    for group in GROUPS:
        for file in (CONF / group).glob("*.yaml"):
            sentence = next(
                line for line in file.read_text().splitlines() if line[:2] == "# " and "@package" not in line
            )
            assert f" {file.stem} {' '.join(sentence[2:].split())}" in words, file
    assert "* greedy Batches by promise" in words


def test_no_group_of_conf_is_left_out() -> None:
    listed = {line.partition("@")[0] for line in help_text("").splitlines() if line and line[0] != " "}
    elsewhere = {"frontier", "store", "hydra"}  # of ragtune study, ragtune ingest and Hydra itself
    assert {folder.name for folder in CONF.iterdir() if folder.is_dir()} - elsewhere <= listed
