"""Adds the experiment harness, addresses and README to the wheel; everything else stands in pyproject.toml.

``experiments/`` and ``conf/`` lie at the top of a checkout. A wheel has them below ``ragtune/_harness``.
"""

import os
import re
from pathlib import Path

from setuptools import find_namespace_packages, find_packages, setup

HARNESS = "ragtune._harness"

# GitHub sets both for every workflow. A fork's release names the fork, and a build elsewhere names nothing.
server, repository = os.getenv("GITHUB_SERVER_URL"), os.getenv("GITHUB_REPOSITORY")
home = f"{server}/{repository}" if server and repository else None
pages = {
    "Repository": "",
    "Issues": "/issues",
    "Changelog": "/blob/main/CHANGELOG.md",
    "Documentation": "/tree/main/docs",
}


def readme() -> str:
    """README.md, whose links to files lead to the repository: the package index has no other files."""
    text = (Path(__file__).parent / "README.md").read_text(encoding="utf-8")
    if home is None:
        return text
    tag = os.getenv("GITHUB_REF_NAME", "main")
    text = re.sub(r"(!\[[^]]*\]\()(?!https?:)", rf"\1{home}/raw/{tag}/", text)
    return re.sub(r"(\]\()(?!https?:|#)", rf"\1{home}/blob/{tag}/", text)


setup(
    long_description=readme(),
    long_description_content_type="text/markdown",
    packages=[
        *find_packages(include=["ragtune", "ragtune.*"]),
        *(f"{HARNESS}.{name}" for name in find_packages(include=["experiments", "experiments.*"])),
        *(f"{HARNESS}.{name}" for name in find_namespace_packages(include=["conf", "conf.*"])),
    ],
    package_dir={f"{HARNESS}.experiments": "experiments", f"{HARNESS}.conf": "conf"},
    project_urls={name: home + path for name, path in pages.items()} if home else {},
)
