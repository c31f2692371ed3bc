"""A paper's published figures, as ``conf/paper/NAME.yaml`` has them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Annotated, Literal

import yaml
from pydantic import Field, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

from experiments.config.paths import CONF
from experiments.report.study import CHECKED, Texts
from ragtune.core.arguments import did_you_mean
from ragtune.core.errors import ConfigError

FOLDER = CONF / "paper"

Filled = Annotated[str, Field(min_length=1)]
NotNegative = Annotated[float, Field(ge=0)]


@dataclass(frozen=True, config=CHECKED)
class Explained:
    """Why ours is not the published figure, and the largest difference that this can explain."""

    why: Filled
    within: NotNegative


@dataclass(frozen=True, config=CHECKED)
class Items:
    """Made-up queries: how many documents each has, and how good their first stage is."""

    documents: Annotated[int, Field(ge=2)]
    order: Literal["perfect", "noisy", "random"] = "random"


@dataclass(frozen=True, config=CHECKED)
class Cell:
    """One published figure, text, or range [low, high]; ``run`` names the settings of the paper that give ours."""

    cell: Filled
    table: Filled  # where the paper or its repository prints it
    published: float | Annotated[list[float], Field(min_length=2, max_length=2)] | str
    value: Filled = "nDCG@10"  # a measure of ir-measures, or what experiments.reproduce.replays.COUNTS lists
    run: Texts = ()
    against: Texts = ()  # then ours is the share saved of what these settings give
    items: Items | None = None  # instead of a collection
    tolerance: NotNegative = 0.0
    because: str = ""  # why the tolerance
    explained: Explained | None = None
    needs: str = ""  # what the cell needs and cannot be had here; then nothing runs
    open: str = ""  # what is known of a difference that nobody has explained yet


@dataclass(frozen=True, config=CHECKED)
class Paper:
    """A paper with its cells; ``inputs`` are files below the data folder with their SHA-256."""

    name: Filled
    title: Filled
    source: Filled  # what the published figures were read from
    cells: Annotated[Sequence[Cell], Field(min_length=1)]
    arxiv: str = ""
    collections: Texts = ()
    inputs: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, Texts] = field(default_factory=dict)  # overrides of ragtune run, by name


def paper_names() -> list[str]:
    """The papers that ship, in alphabetical order."""
    return sorted(file.stem for file in FOLDER.glob("*.yaml"))


def load_paper(name: str) -> Paper:
    """Read ``conf/paper/NAME.yaml`` or the path of a YAML file.

    Raises:
        ConfigError: there is no such file, it cannot be read, or it names unknown keys or settings.
    """
    file = Path(name) if name.endswith((".yaml", ".yml")) else FOLDER / f"{name}.yaml"
    if not file.is_file():
        there = paper_names()
        raise ConfigError(
            f"no paper {name!r}: allowed are {', '.join(there)}, all, or the path of a YAML file"
            f"{did_you_mean(name, there)}"
        )
    try:
        raw = yaml.safe_load(file.read_text(encoding="utf-8"))
        paper = TypeAdapter(Paper).validate_python({"name": file.stem, **raw})
    except (yaml.YAMLError, OSError, UnicodeDecodeError, TypeError) as error:
        raise ConfigError(f"{file.name} cannot be read: {' '.join(str(error).split())}") from None
    except ValidationError as error:
        flaw = error.errors(include_url=False)[0]
        where, given = ".".join(map(str, flaw["loc"])), str(flaw["input"])[:80]
        raise ConfigError(f"{file.name}: {where}={given}: {flaw['msg']}") from None
    for cell in paper.cells:
        for setting in (*cell.run, *cell.against):
            if setting not in paper.settings:
                raise ConfigError(f"{file.name}: {cell.cell!r} names no setting of the file: {setting!r}")
    for name in re.findall(
        r"\$\{data\}/([^,\]\s]+)", " ".join(word for words in paper.settings.values() for word in words)
    ):
        if not any(f"{listed}/".startswith(f"{name}/") for listed in paper.inputs):
            raise ConfigError(f"{file.name}: inputs has no digest of {name}")
    return paper
