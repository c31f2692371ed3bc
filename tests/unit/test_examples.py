"""Every public name has an example in its docstring, and the examples print what they say."""

import doctest
import inspect
import re
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = "\n".join(page.read_text(encoding="utf-8") for page in sorted((ROOT / "docs" / "reference").glob("*.md")))
PUBLIC = [name for name in re.findall(r"^::: ([\w.]+)$", PAGES, flags=re.MULTILINE) if not name.endswith(".errors")]
"""Names on the reference pages; the modules of errors are listed whole."""

MODULES = sorted(
    ".".join(file.relative_to(ROOT).with_suffix("").parts)
    for file in (ROOT / "ragtune").rglob("*.py")
    if ">>> " in file.read_text(encoding="utf-8")
)


@pytest.mark.parametrize("name", PUBLIC)
def test_every_public_name_has_an_example(name: str) -> None:
    module, _, attribute = name.rpartition(".")
    found = getattr(import_module(module), attribute)
    members = vars(found).values() if inspect.isclass(found) else ()
    texts = [found.__doc__, *(getattr(member, "__doc__", None) for member in members)]
    assert any(">>> " in text for text in texts if isinstance(text, str))


@pytest.mark.parametrize("module", MODULES)
def test_examples_print_what_they_say(module: str) -> None:
    result = doctest.testmod(import_module(module))
    assert result.attempted > 0
    assert result.failed == 0
