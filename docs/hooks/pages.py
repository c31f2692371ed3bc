"""What the site shows from outside docs/: results, CONTRIBUTING.md, commands, options of conf/ with their classes.

MkDocs calls the two functions whose names begin with ``on_`` (``hooks`` in mkdocs.yml).
"""

from __future__ import annotations

import argparse
import functools
import re
import subprocess
from pathlib import Path
from typing import Any

import yaml
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[2]
CONF = ROOT / "conf"


def on_files(files: Files, config: Any) -> Files:
    """Add the committed results and CONTRIBUTING.md."""
    for path in _committed("results"):
        files.append(File.generated(config, path, abs_src_path=str(ROOT / path)))
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").replace("](docs/", "](")
    files.append(File.generated(config, "contributing.md", content=text))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Expand ``{{ components: GROUP }}``, ``{{ presets }}`` and ``{{ commands }}``, and give every rule an anchor."""
    if page.file.src_uri == "rules.md":
        return re.sub(r"^\*\*([A-Z]\d+)\.", r"[](){#\1}\n**\1.", markdown, flags=re.MULTILINE)
    markdown = re.sub(r"^\{\{ commands \}\}$", lambda _: commands(), markdown, flags=re.MULTILINE)
    markdown = re.sub(r"^\{\{ presets \}\}$", lambda _: presets(), markdown, flags=re.MULTILINE)
    return re.sub(r"^\{\{ components: (\w+) \}\}$", lambda found: components(found[1]), markdown, flags=re.MULTILINE)


def components(group: str) -> str:
    """One section a file of ``conf/GROUP``: what it is, its options, its class with the paper it is from."""
    return "\n".join(_section(file) for file in sorted((CONF / group).glob("*.yaml")))


def commands() -> str:
    """One section a command of ``ragtune``: what ``--help`` says, unless Hydra does, at length."""
    from ragtune.cli.dispatch import declare
    from ragtune.cli.harness import COMMANDS, SERVICES, load

    sections = []
    for name in [*COMMANDS, *SERVICES]:
        command = load(name)
        parser = argparse.ArgumentParser(prog=f"ragtune {name}")
        declare(command, parser)
        parser.description = None  # told as text, which is wrapped
        parser.formatter_class = functools.partial(parser.formatter_class, width=88)  # type: ignore[assignment]
        text = parser.format_help()
        if getattr(command, "VERBATIM", False):
            text = f"usage: ragtune {name} [GROUP=CHOICE | OPTION=VALUE ...]"
        sections.append(f"## `ragtune {name}`\n\n{command.__doc__}\n\n```text\n{text.strip()}\n```\n")
    return "\n".join(sections)


def presets() -> str:
    """One row of a table a file of ``conf/experiment``: what it chooses and what it is."""
    rows = []
    for file in sorted((CONF / "experiment").glob("*.yaml")):
        text = file.read_text(encoding="utf-8")
        preset, about = yaml.safe_load(text), text.splitlines()[1].lstrip("# ")
        chosen = {key.split("/")[-1]: value for line in preset["defaults"] for key, value in line.items()}
        order = preset.get("assembler", {}).get("ordering", "")
        rows.append(
            f"| `{file.stem}` | {chosen.get('estimator', '')} | {chosen.get('scheduler', '')} | {order} | {about} |"
        )
    return "\n".join(rows)


def _section(file: Path) -> str:
    about, options = [], []
    for line in file.read_text(encoding="utf-8").splitlines():
        if not line.startswith("# @package"):
            (about if line.startswith("#") and not options else options).append(line)
    target = yaml.safe_load("\n".join(options))["_target_"]
    return "\n".join(
        [
            f"## `{file.parent.name}={file.stem}`\n",
            " ".join(line.lstrip("# ") for line in about) + "\n",
            f'```yaml title="conf/{file.parent.name}/{file.name}"',
            *options,
            f"```\n\n**`{target}`**\n\n::: {target}",
            "    options: {members: false, show_root_heading: false}\n",
        ]
    )


def _committed(folder: str) -> list[str]:
    """Paths of the folder's pages and pictures that belong to the project, not the output of runs beside them."""
    command = ["git", "ls-files", folder]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)  # noqa: S603 - a folder of docs/
    return [path for path in listed.stdout.splitlines() if path.endswith((".md", ".png", ".csv"))]
