"""The site builds without a network, and its pages name tests, files, options, code and rules that exist."""

import argparse
import json
import os
import re
import subprocess
import sys
import tomllib
from fnmatch import fnmatchcase
from pathlib import Path
from types import ModuleType

import pytest
import yaml
from patience import HANG_S

from experiments.config.compose import spelled_out

NO_PROSE = re.compile(
    r"^:::.*|^\{\{.*|^ *\|.*|^#+ .*|^    (?:ragtune|python|SOURCE:|SPAN:|\[\[|\.\.\.).*",
    flags=re.MULTILINE,
)
"""API directives, tables, headings and indented code, a line each."""

ITEM = r"\s*(?:[-*]|\d+\.)\s+"
"""What begins an item of a list."""


def sentences(text: str) -> list[list[str]]:
    """The words of every sentence of at least three words; inline code is one word."""
    text = NO_PROSE.sub("\n", re.sub(r"```.*?```|<!--.*?-->", "\n\n", text, flags=re.DOTALL))
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text)
    found = []
    for block in re.split(rf"\n\s*\n|\n(?={ITEM})", text):
        line = re.sub(r"`[^`]*`", "CODE", re.sub(rf"^{ITEM}", "", block).replace("\n", " "))
        found += [re.findall(r"[A-Za-z][\w'-]*", part) for part in re.split(r"(?<=[.?!:])\s+(?=[A-Z*\"(])", line)]
    return [words for words in found if len(words) > 2]


ROOT = Path(__file__).parents[2]
PAGES = [*sorted((ROOT / "docs").rglob("*.md")), ROOT / "CONTRIBUTING.md"]
TEXTS = {str(page.relative_to(ROOT)): page.read_text(encoding="utf-8") for page in PAGES}
EVERYTHING = "\n".join(TEXTS.values())
MADE = dict(re.findall(r'```(?:python|yaml) title="([^"]+)"\n(.*?)```', EVERYTHING, flags=re.DOTALL))
"""Files that a page tells its reader to write, by path."""

NAMES = {
    name
    for file in [*(ROOT / "tests").rglob("test_*.py"), *(ROOT / "ragtune" / "testing").glob("*.py")]
    for name in re.findall(r"^ *def (test_\w+)", file.read_text(encoding="utf-8"), flags=re.MULTILINE)
}
CODE = [
    file
    for folder in ("ragtune", "experiments", "scripts", "tests", "conf", "benchmarks")
    for file in sorted((ROOT / folder).rglob("*"))
    if file.suffix in {".py", ".yaml", ".sql"} and file != Path(__file__)
]
DATA = [file for folder in ("ragtune/superprompt", "ragtune/llm") for file in (ROOT / folder).rglob("*.json")]
WORDS = {"query_embedding", "test_NAME", "test_mine"} | {  # a rule's own words, and a name to be filled in
    word
    for text in [*MADE.values(), *(f.read_text(encoding="utf-8") for f in [*CODE, *DATA]), *(f.stem for f in CODE)]
    for word in re.findall(r"\w+", text)
}
RULES = set(re.findall(r"^\*\*([A-Z]\d+)\.", TEXTS["docs/rules.md"], flags=re.MULTILINE))
CITATION = re.compile(r"\brules? ((?:[A-Z]\d+(?: to |, | and )?)+)")
UNOPENABLE = re.compile(
    r"""\b0\.(?:1|54|55)(?:'s)?,?[ ](?:(?:sections?|invariants?|rules?|to[ ]the[ ]letter)\b|"[A-Z])
    | \(0\.5[45]\) | \bragd,?[ ]sections? | \bdesign(?:\.md)?,[ ]section
    | (?<!Bishop[ ]2006,[ ])(?<!RFC[ ]8259,[ ])(?<!RFC[ ]9110,[ ])(?<!functions,[ ])\bsections?[ ]\d""",
    flags=re.VERBOSE,
)
"""What the rules were first written in, cited by section: no reader has it. Papers and RFCs can be opened."""


def test_the_site_builds_and_no_link_or_anchor_is_broken_and_nothing_is_fetched(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)]
    env = {**os.environ, "SITE_SEARCH": "false"}  # no assertion is about its index
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=HANG_S, check=False)
    assert done.returncode == 0, done.stderr  # with --quiet, MkDocs would not count warnings
    pages = {page: page.read_text(encoding="utf-8") for page in tmp_path.rglob("*.html")}
    assert len(pages) > len(PAGES)
    fetched = r'<(?:script|img|iframe|source)[^>]* src="(?:https?:)?//|<link[^>]* href="(?:https?:)?//(?!squidfunk)'
    assert [page.name for page, text in pages.items() if re.search(fetched, text)] == []


@pytest.mark.parametrize("page", TEXTS)
def test_every_test_and_every_file_that_a_page_names_exists(page: str) -> None:
    assert sorted(set(re.findall(r"::(test_\w+)", TEXTS[page])) - NAMES) == []
    named = set(re.findall(r"`((?:ragtune|experiments|conf|scripts|docs|\.ci)/[\w/.-]+\.\w+)`", TEXTS[page]))
    unknown = {path for path in named if not re.search(r"NAME|mine|overlap", path)} - set(MADE)
    assert sorted(path for path in unknown if not (ROOT / path).exists()) == []


@pytest.mark.parametrize("page", [*TEXTS, "README.md"])
def test_every_name_that_a_page_sets_as_code_stands_in_the_code(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    named = {name for code in re.findall(r"`([^`\n]+)`", text) for name in re.findall(r"[A-Za-z]\w*_\w+", code)}
    assert sorted(named - WORDS) == []


def test_the_components_that_pages_tell_to_write_do_what_their_tests_say(
    fakes: object, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    code = {path: text for path, text in MADE.items() if path.endswith(".py")}
    for path in sorted(code):  # experiments/ and ragtune/ before tests/
        module = ModuleType(path.removesuffix(".py").replace("/", "."))
        monkeypatch.setitem(sys.modules, module.__name__, module)
        exec(compile(code[path], path, "exec"), vars(module))  # noqa: S102 - the pages of this checkout
    for path, text in MADE.items():
        if path.endswith(".yaml"):
            module_name, _, name = yaml.safe_load(text)["_target_"].rpartition(".")
            made = vars(sys.modules[module_name])[name]
            assert made if path.startswith("conf/dataset/") else made()  # a collection needs its file
    sys.modules["tests.unit.schedulers.test_patience"].test_a_find_resets_its_patience(fakes)
    of_pairs = sys.modules["tests.unit.experiments.datasets.test_pairs"]
    of_pairs.test_equal_texts_are_one_query_and_one_document(tmp_path)
    of_pairs.test_a_bad_label_is_named_with_its_place(tmp_path)


def test_sentences_are_short() -> None:
    readme = sentences((ROOT / "README.md").read_text(encoding="utf-8"))
    assert sum(map(len, readme)) / len(readme) <= 15
    found = [(page, words) for page, text in TEXTS.items() for words in sentences(text)]
    long = [f"{page} [{len(words)}]: {' '.join(words)}" for page, words in found if len(words) > 30]
    assert len(long) + sum(len(words) > 30 for words in readme) <= 0.03 * (len(found) + len(readme)), long


@pytest.mark.parametrize("page", ["docs/howto/own-reranker.md", "docs/howto/threshold.md"])
def test_the_python_of_a_page_runs(page: str, capsys: pytest.CaptureFixture[str]) -> None:
    # tests/e2e/test_wheel.py runs the others
    code = "\n".join(re.findall(r"```python\n(.*?)```", TEXTS[page], flags=re.DOTALL))
    exec(compile(code, page, "exec"), {"__name__": "page"})  # noqa: S102 - the pages of this checkout
    for told in re.findall(r"```text\n(.*?)```", TEXTS[page], flags=re.DOTALL) if "threshold" in page else []:
        assert ("MODEL" in told) or told == capsys.readouterr().out


def test_rules_are_numbered_without_gaps_and_every_rule_that_is_cited_exists() -> None:
    numbers: dict[str, list[int]] = {}
    for rule in re.findall(r"^\*\*([A-Z]\d+)\.", TEXTS["docs/rules.md"], flags=re.MULTILINE):
        numbers.setdefault(rule[0], []).append(int(rule[1:]))
    assert all(found == list(range(1, len(found) + 1)) for found in numbers.values())
    cited = {
        rule
        for text in [*TEXTS.values(), *(file.read_text(encoding="utf-8") for file in CODE)]
        for rules in CITATION.findall(text)
        for rule in re.findall(r"[A-Z]\d+", rules)
    }
    assert len(cited) > 3
    assert sorted(cited - RULES) == []


def test_code_cites_nothing_that_a_reader_cannot_open() -> None:
    assert [
        f"{file.relative_to(ROOT)}:{number}: {line.strip()}"
        for file in CODE
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), start=1)
        if UNOPENABLE.search(line)
    ] == []


COMPOSE = (ROOT / "compose.yaml").read_text(encoding="utf-8")
IMAGE = (ROOT / "Dockerfile").read_text(encoding="utf-8")


def test_what_the_compose_file_starts_is_what_its_programs_take() -> None:
    from mlflow.cli import server
    from psycopg.conninfo import conninfo_to_dict
    from sqlalchemy import make_url

    made = yaml.safe_load(COMPOSE)
    services = made["services"]
    for service in services.values():
        assert ("image" in service) != (service.get("build") == ".")
        assert set(service.get("depends_on", ())) < set(services)
        assert {volume.partition(":")[0] for volume in service["volumes"]} <= set(made["volumes"])
    # The image first starts a server for its own scripts, which answers at its socket and at no address.
    assert "--host" in services["postgres"]["healthcheck"]["test"]
    options = server.make_context("mlflow", services["mlflow"]["command"]).params
    store = make_url(options["backend_store_uri"])
    store.get_dialect().import_dbapi()  # its driver is among the extras of the image
    ragtune = services["ragtune"]["environment"]
    dsn = conninfo_to_dict(ragtune["RAGTUNE_DSN"])
    assert (store.host, store.username) == (dsn["host"], dsn["user"])
    host = ragtune["MLFLOW_TRACKING_URI"].removeprefix("http://")
    assert host == f"mlflow:{options['port']}"
    assert host in options["allowed_hosts"].split(",")
    compile(services["mlflow"]["healthcheck"]["test"][-1], "healthcheck", "exec")
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    server_s, chosen = re.findall(r"^ARG EXTRAS=(.*)", IMAGE, flags=re.MULTILINE)
    assert {"services", "llm"} <= set(server_s.split(",")) <= set(extras)
    assert {"experiments", "postgres"} <= set(chosen.split(",")) <= set(extras)


def test_the_image_of_the_server_and_its_compose_example_have_options_that_serve_takes() -> None:
    from ragtune.cli.commands import serve

    target = re.split(r"^FROM ", IMAGE, flags=re.MULTILINE)[2]
    assert target.startswith("base AS server\n")
    assert "\nUSER ragtune\n" in target
    (check,) = re.findall(r"^HEALTHCHECK .*\\\n +CMD (.*)", target, flags=re.MULTILINE)
    compile(json.loads(check)[-1], "healthcheck", "exec")
    (start,) = re.findall(r"^ENTRYPOINT (.*)", target, flags=re.MULTILINE)
    example = yaml.safe_load((ROOT / "examples" / "rerank-server" / "compose.yaml").read_text(encoding="utf-8"))
    ragtune = example["services"]["ragtune"]
    assert ragtune["build"]["target"] == "server"
    parser = argparse.ArgumentParser()
    serve.add_arguments(parser)
    options = parser.parse_args([*json.loads(start)[2:], *ragtune["command"]])
    assert options.model == f"http://tei:{example['services']['tei']['command'][-1]}"
    assert (options.host, options.port, options.docs) == ("0.0.0.0", 8080, 20)


def test_the_compose_files_password_may_have_any_character_and_is_in_no_command() -> None:
    services = yaml.safe_load(COMPOSE)["services"]
    given = {name: service.pop("environment") for name, service in services.items()}
    assert "$" not in str(services)
    whole = {
        (name, variable)
        for name, environment in given.items()
        for variable, value in environment.items()
        if re.fullmatch(r"\$\{POSTGRES_PASSWORD[^}]*\}", value)
    }
    assert whole == {("postgres", "POSTGRES_PASSWORD"), ("mlflow", "PGPASSWORD"), ("ragtune", "PGPASSWORD")}
    assert str(given).count("$") == len(whole)


def test_images_have_their_whole_names_and_nothing_that_git_ignores() -> None:
    services = yaml.safe_load(COMPOSE)["services"].values()
    bases = re.findall(r"^FROM (\S+/\S+)", IMAGE, flags=re.MULTILINE)
    named = [*bases, *(service["image"] for service in services if "image" in service)]
    # Podman searches no registry.
    assert [re.fullmatch(r"docker\.io/[^/]+/[^/:]+:.+", name) is not None for name in named] == [True, True]
    ignored = re.findall(r"^[^#\s].*", (ROOT / ".gitignore").read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert ".env" in ignored  # where Compose looks for the password
    left_out = (ROOT / ".dockerignore").read_text(encoding="utf-8").replace("**/", "").split()
    tops = {line.partition("/")[0] for line in [".git", *ignored]}
    assert [top for top in sorted(tops) if not any(fnmatchcase(top, pattern) for pattern in left_out)] == []


README = (ROOT / "README.md").read_text(encoding="utf-8")
GROUPS = ("estimator", "scheduler", "expander", "budget", "executor", "retriever", "dataset")


@pytest.mark.parametrize("group", GROUPS)
def test_every_option_that_is_named_exists(group: str) -> None:
    named = {name for names in re.findall(rf"\b{group}=([\w|,]+)", README) for name in re.split(r"[|,]", names)}
    offered = {file.stem for file in (ROOT / "conf" / group).glob("*.yaml")}
    amounts = {name for name in named if spelled_out([f"{group}={name}"]) != [f"{group}={name}"]}
    assert named - {"glob", "mine"} - amounts <= offered


def test_every_file_that_is_linked_exists() -> None:
    links = re.findall(r"\]\(([^)#:]+)\)", README)
    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_every_make_target_that_is_named_exists() -> None:
    targets = set(re.findall(r"make (\w+)", README))
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert [target for target in targets if not re.search(rf"^{target}:", makefile, flags=re.MULTILINE)] == []
