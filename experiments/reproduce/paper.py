"""A paper's published figures, as ``conf/paper/NAME.yaml`` has them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import field
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Literal

import yaml
from pydantic import Field, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

from experiments.config.paths import CONF
from experiments.replay.component import readable
from experiments.report.study import CHECKED, NotNegative, Texts
from ragtune.core.arguments import did_you_mean
from ragtune.core.errors import ConfigError

FOLDER = CONF / "paper"

Filled = Annotated[str, Field(min_length=1)]


class ReproductionVerdict(StrEnum):
    """What is known of a published figure."""

    EQUAL = "equal"
    EXPLAINED = "explained"
    DIFFERENT = "different"
    NOT_HERE = "not reproducible here"


@dataclass(frozen=True, config=CHECKED)
class PublishedCell:
    """One published figure, text, or range [low, high]; ``run`` names the settings of the paper that give ours."""

    cell: Filled
    table: Filled  # where the paper or its repository prints it
    published: float | Annotated[list[float], Field(min_length=2, max_length=2)] | str
    value: Filled = "nDCG@10"  # a measure of ir-measures, or what experiments.reproduce.reproduced.COUNTS lists
    run: Texts = ()
    against: Texts = ()  # then ours is the share that is saved of what these settings give
    items: Annotated[int, Field(ge=2)] | None = None  # documents of made-up queries, instead of a collection
    order: Literal["perfect", "noisy", "random"] = "random"  # of their first stage
    tolerance: NotNegative = 0.0
    expect: ReproductionVerdict = ReproductionVerdict.EQUAL
    within: NotNegative = 0.0  # the largest difference that ``why`` explains, or that is known
    why: str = ""  # of the tolerance, or of the expected verdict


@dataclass(frozen=True, config=CHECKED)
class Paper:
    """A paper with its cells; ``inputs`` are files below the data folder with their SHA-256."""

    name: Filled
    title: Filled
    source: Filled  # what the published figures were read from
    cells: Annotated[Sequence[PublishedCell], Field(min_length=1)]
    arxiv: str = ""
    collections: Texts = ()
    inputs: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, Texts] = field(default_factory=dict)  # overrides of ragtune run, by name


def paper_names() -> list[str]:
    """The papers that ship, in alphabetical order."""
    return sorted(file.stem for file in FOLDER.glob("*.yaml"))


def load_paper(name: str) -> Paper:
    """Read ``conf/paper/NAME.yaml`` or the path of a YAML file."""
    file = Path(name) if name.endswith((".yaml", ".yml")) else FOLDER / f"{name}.yaml"
    if not file.is_file():
        allowed = ["all", *paper_names()]
        meant = did_you_mean(name, allowed)
        raise ConfigError(f"no paper {name!r}: allowed are {', '.join(allowed)}, or the path of a YAML file{meant}")
    try:
        raw = yaml.safe_load(file.read_text(encoding="utf-8"))
        paper = TypeAdapter(Paper).validate_python({"name": file.stem, **raw})
    except (yaml.YAMLError, OSError, UnicodeDecodeError, TypeError) as error:
        raise ConfigError(f"{file.name} cannot be read: {' '.join(str(error).split())}") from None
    except ValidationError as error:
        raise readable(error, file.name, {}) from None
    for cell in paper.cells:
        _require_usable(cell, file.name)
        if unknown := {*cell.run, *cell.against} - paper.settings.keys():
            raise ConfigError(f"{file.name}: settings has no {min(unknown)!r}")
    text = " ".join(word for words in paper.settings.values() for word in words)
    for path in re.findall(r"\$data/([^,\]\s]+)", text):
        if not any(f"{known}/".startswith(f"{path}/") for known in paper.inputs):
            raise ConfigError(f"{file.name}: inputs has no digest of {path}")
    return paper


def _require_usable(cell: PublishedCell, file: str) -> None:
    named, published = f"{file}: cell {cell.cell!r}", cell.published
    if cell.expect is not ReproductionVerdict.EQUAL and not cell.why.strip():
        raise ConfigError(f"{named} needs why, since it expects {str(cell.expect)!r}")
    if cell.expect is ReproductionVerdict.NOT_HERE and isinstance(published, str):
        raise ConfigError(f"{named} has no figure: allowed is a published one")
    if isinstance(published, list) and published[0] > published[1]:
        raise ConfigError(f"{named}: the range {published} does not ascend")
