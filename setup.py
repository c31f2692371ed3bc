"""Adds the experiment harness to the wheel; everything else stands in pyproject.toml.

``experiments/`` and ``conf/`` lie at the top of a checkout. A wheel has them below ``ragtune/_harness``.
"""

import os

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

setup(
    packages=[
        *find_packages(include=["ragtune", "ragtune.*"]),
        *(f"{HARNESS}.{name}" for name in find_packages(include=["experiments", "experiments.*"])),
        *(f"{HARNESS}.{name}" for name in find_namespace_packages(include=["conf", "conf.*"])),
    ],
    package_dir={f"{HARNESS}.experiments": "experiments", f"{HARNESS}.conf": "conf"},
    project_urls={name: home + path for name, path in pages.items()} if home else {},
)
