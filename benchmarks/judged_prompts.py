"""The judged prompts of ``datasets/prompts``: fetch their documents, and find which chunks the judgments mean.

``python benchmarks/judged_prompts.py DIRECTORY`` fetches the documents and checks that every judged section exists.
"""

from __future__ import annotations

import fnmatch
import hashlib
import re
import subprocess
import sys
import tarfile
from pathlib import Path

import yaml

_PROMPTS = Path(__file__).parent.parent / "datasets" / "prompts" / "prompts.yaml"
# The releases that hold the documents, by digest. Release notes and generated lists are left out: nobody judged them.
_RELEASES = {
    "npm": ("npm-10.9.2.tgz", "5cd1e5ab971ea6333f910bc2d50700167c5ef4e66da279b2a3efc874c6b116e4"),
    "pytest": ("pytest-8.3.4.tar.gz", "965370d062bce11e73868e0335abac31b4d3de0e82f4007408d242b4f8610761"),
    "django": ("Django-5.1.4.tar.gz", "de450c09e91879fa5a307f696e57c851955c910a438a35e6b4c895e86bedc82a"),
    "scrapy": ("scrapy-2.19.0.tar.gz", "34130726582b64c91531162ab277c4053e558876d49ba219cb43679e71d80a87"),
    "fastify": ("fastify-5.12.8.tgz", "459048aabd9311309f4f95b36e8ca065e3a4613ded292bcf50442926931e4748"),
    "beets": ("beets-2.14.1.tar.gz", "b25dc7bf8ed093d8b6e043e88013736902c1082c958b81a598af5db5275539a5"),
    "celery": ("celery-5.7.0.tar.gz", "6a5dfcf6662287204f009a02002b9e66c83d4105e47ebabdc7079108772fc6f0"),
    "aider": ("aider_chat-0.86.2.tar.gz", "f38a9d322f5609f0c13af82d50c6a11170185b3fdf26956e4a7e89ba19819159"),
    "markdownlint": ("markdownlint-0.40.0.tgz", "68adab60a00e5d084544e7c2c7a49ff52050d71950ffcc77442bded32a1ac9fb"),
}
_SKIPPED = re.compile(
    r"/doc/en/(announce/|changelog|reference/plugin_list)|Django[^/]+/docs/(releases|internals|misc|man)/"
    r"|scrapy[^/]+/docs/(news|requirements)|scrapy[^/]+/tests/|beets[^/]+/docs/(changelog|api/|_templates/)"
    r"|celery[^/]+/docs/(history/|internals/|templates/|changelog|AUTHORS|spelling_wordlist)"
    r"|/website/docs/leaderboards/|package/doc/Rules"
)
_TEXTS = (".md", ".rst", ".txt")


def prompts(split: str | None = None) -> list[dict]:
    """Return the judged prompts of a split (``tune``, ``held``, ``fresh``, ``fresh2``), or all of them."""
    judged = yaml.safe_load(_PROMPTS.read_text(encoding="utf-8"))["prompts"]
    return [prompt for prompt in judged if split in (None, prompt["split"])]


def fetch(directory: Path, *names: str) -> dict[str, dict[str, str]]:
    """Return the named sets' documents, or all, as texts by path. Downloads what is missing with pip and npm."""
    directory.mkdir(parents=True, exist_ok=True)
    roots = {name: described["root"] for name, described in yaml.safe_load(_PROMPTS.read_text())["sets"].items()}
    documents: dict[str, dict[str, str]] = {}
    for name in names or _RELEASES:
        archive, digest = _RELEASES[name]
        path = directory / archive
        if not path.exists():
            release = archive.removesuffix(".tar.gz").removesuffix(".tgz")
            package, version = release.rsplit("-", 1)
            pip = [
                sys.executable,
                "-m",
                "pip",
                "download",
                "-q",
                "--no-deps",
                "--no-binary",
                ":all:",
                "-d",
                str(directory),
            ]
            npm = ["npm", "pack", "--silent", "--pack-destination", str(directory), f"{package}@{version}"]
            subprocess.run(npm if archive.endswith(".tgz") else [*pip, f"{package}=={version}"], check=True)
        if (found := hashlib.sha256(path.read_bytes()).hexdigest()) != digest:
            raise ValueError(f"{path} has SHA-256 {found}, expected {digest}")
        documents[name] = _texts(path, "/docs/content/" if name == "npm" else f"/{roots[name]}/")
    return documents


def _texts(archive: Path, root: str) -> dict[str, str]:
    texts = {}
    with tarfile.open(archive) as members:
        for member in members:
            if (
                member.isfile()
                and root in member.name
                and member.name.endswith(_TEXTS)
                and not _SKIPPED.search(member.name)
            ):
                content = members.extractfile(member)
                assert content is not None
                texts[member.name.split(root, 1)[1]] = content.read().decode("utf-8", "replace")
    return dict(sorted(texts.items()))


class Judgments:
    """The judged sections of one document set.

    Args:
        documents: Texts by path, as ``fetch`` returns them.
    """

    def __init__(self, documents: dict[str, str]) -> None:
        self._sections = {path: _sections(text) for path, text in documents.items()}
        self._texts = documents

    def find(self, reference: str) -> list[tuple[str, set]]:
        """Return the sections that a reference means: paths and word 4-grams of their texts."""
        files, _, heading = reference.partition("#")
        found = []
        for path in fnmatch.filter(self._texts, files):
            if not heading:
                found.append((path, shingles(self._texts[path])))
            for title, text, own in self._sections[path] if heading else ():
                if heading.endswith("$"):
                    found += [(path, shingles(own))] if _plain(title) == _plain(heading[:-1]) else []
                elif _plain(title).startswith(_plain(heading)):
                    found.append((path, shingles(text)))
        return found

    def holds(self, section: tuple[str, set], path: str, text: str) -> bool:
        """Return whether at least half of a chunk lies in a section, or half of the section in the chunk."""
        return path == section[0] and _overlap(shingles(text), section[1])


def shingles(text: str) -> set:
    """Return the 4-grams of a text's words, or its words where it has fewer than four."""
    words = re.findall(r"\w+", text.lower())
    return set(zip(*(words[start:] for start in range(4)), strict=False)) or {(word,) for word in words}


def _overlap(first: set, second: set) -> bool:
    return bool(first and second) and len(first & second) >= 0.5 * min(len(first), len(second))


def _plain(heading: str) -> str:
    return " ".join(re.sub(r":[a-z:]+:(?=`)|\]\(.*?\)|[`*#\[]|\s*</?[^>]*>", "", heading).lower().split())


def _sections(text: str) -> list[tuple[str, str, str]]:
    """Each heading of a Markdown or reStructuredText file with its text, with and without its subsections."""
    lines = text.splitlines()
    headings: list[tuple[int, int, str]] = []
    underlines: list[str] = []
    fenced = False
    for number, line in enumerate(lines):
        fenced ^= line.startswith("```")
        if (marked := re.match(r"(#{1,6}) (.+)", line)) and not fenced:
            headings.append((number, len(marked[1]), marked[2]))
        elif number and re.fullmatch(r"([=\-~^+\"'*#])\1{2,}", line) and 0 < len(lines[number - 1]) <= len(line) + 2:
            overlined = number > 1 and lines[number - 2] == line
            if not re.fullmatch(r"\W+", lines[number - 1]) and not lines[number - 1].startswith(" "):
                style = line[0] * (2 if overlined else 1)
                underlines += [style] if style not in underlines else []
                headings.append((number - 1, underlines.index(style) + 1, lines[number - 1]))
    found = []
    for index, (number, level, title) in enumerate(headings):
        after = (other for other, deeper, _ in headings[index + 1 :] if deeper <= level)
        following = headings[index + 1][0] if index + 1 < len(headings) else len(lines)
        found.append((title, "\n".join(lines[number : next(after, len(lines))]), "\n".join(lines[number:following])))
    return found


if __name__ == "__main__":
    sets = fetch(Path(sys.argv[1]))
    for judged in prompts():
        judgments = Judgments(sets[judged["set"]])
        for reference in (*judged.get("answers", ()), *judged.get("useful", ())):
            if not judgments.find(reference):
                print(f"{judged['id']}: no section {reference}")
    print({name: len(documents) for name, documents in sets.items()})
