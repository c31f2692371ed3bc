"""What may follow where somebody types an override: for shells, which ask again at every key."""

from __future__ import annotations

from collections.abc import Iterator

from experiments.config.options import known_options
from experiments.config.paths import CONF
from experiments.config.suggest import options


def completions(word: str, root: str = "config") -> list[str]:
    """The words that an override may become: groups, their choices, and options one level at a time.

    Choices of a sweep are completed after each comma. Values of options are not known, so none are proposed.

    Args:
        word: what is typed so far.
        root: the file of conf/ that the options are those of.
    """
    name, is_chosen, value = word.partition("=")
    if not is_chosen:
        return sorted({next_step for next_step in _steps(word, root) if next_step.startswith(word)})
    before = value[: value.rfind(",") + 1]
    return [f"{name}={before}{choice}" for choice in _choices(name.partition("@")[0].lstrip("+"))]


def _steps(word: str, root: str) -> Iterator[str]:
    """Names with their end: ``=`` for a value, ``.`` where there is more below."""
    first = known_options(root)
    for folder in CONF.iterdir():
        if folder.name in first or (folder.name == "experiment" and root != "ingest"):
            yield f"{folder.name}="
    for option in options():
        if option.partition(".")[0] in first:
            stop = option.find(".", len(word))
            yield option[: stop + 1] if stop >= 0 else f"{option}="


def _choices(group: str) -> list[str]:
    return sorted(file.stem for file in (CONF / group).glob("*.yaml")) if group.isidentifier() else []
