"""Every command that README, docs and help texts show, as words."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

from command_line import ROOT

from experiments.cli.help import help_text
from ragtune.cli import harness
from ragtune.cli.dispatch import Command
from ragtune.cli.main import SERVICES

ALIASES = {
    "run.py": "run",
    **{
        f"scripts/{file.stem}.py": name
        for file in (ROOT / "scripts").glob("*.py")
        for name in re.findall(r'main\("([\w-]+)"\)', file.read_text(encoding="utf-8"))
    },
}
"""Commands of a checkout, by the file that is an alias of each."""

HARNESS = list(harness.COMMANDS)
COMMANDS: dict[str, Command] = {name: harness.load(name) for name in HARNESS} | SERVICES


def pages() -> dict[str, str]:
    """What a reader sees, by where it stands."""
    files = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
    texts = {str(file.relative_to(ROOT)): file.read_text(encoding="utf-8") for file in files}
    texts |= {f"{name} --help": command.__doc__ or "" for name, command in COMMANDS.items()}
    return texts | {
        f"{name} --help, usage": help_text("", is_sweep=name == "sweep").partition("\nChoices")[0]
        for name in ("run", "sweep")
    }


def commands() -> Iterator[tuple[str, tuple[str, ...]]]:
    """Where a command stands, and its words: the command's name first."""
    for where, text in pages().items():
        text = re.sub(r" *\\\n *", " ", text)
        for found in re.finditer(r"^ *(?:python (?=run\.py|scripts/)|ragtune (?=[a-z]+\b))", text, re.MULTILINE):
            words = words_of(text[found.end() :].splitlines())
            words[0] = ALIASES.get(words[0], words[0])
            if not words[0].startswith("scripts/") and not any("GROUP" in word for word in words):
                yield where, tuple(words)


def words_of(lines: list[str]) -> list[str]:
    """The words of the command that the lines begin with; what is quoted may go on over several lines."""
    for last in range(1, len(lines) + 1):
        shown = "\n".join(lines[:last])
        shown = shown if "\n" in shown else re.split(r" (?:[|<>&](?: |$)|\.\.\.)|  +(?=[A-Za-z])", shown)[0]
        try:
            return shlex.split(shown, comments=True)
        except ValueError:
            continue
    raise ValueError(f"no end of {lines[0]!r}")


SHOWN = sorted({words: where for where, words in commands()}.items())
"""Each command once, with a page that shows it."""


def is_own_component(words: tuple[str, ...]) -> bool:
    """Whether the page has its reader write the component first."""
    made = re.findall(r'title="conf/(\w+)/(\w+)\.yaml"', "\n".join(pages().values()))
    return any(f"{group}={name}" in words for group, name in made) or any("mine" in word for word in words)
