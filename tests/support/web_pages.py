"""A web page that a command serves, and a browser, for browser tests."""

import os
import shutil
import signal
import socket
import subprocess
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from patience import HANG_S, wait_until

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")

NEEDS_CHROMIUM = pytest.mark.skipif(CHROMIUM is None, reason="no chromium on this machine: apt-get install chromium")

_QUIET = [
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update"),
]


@contextmanager
def browser_page(width: int = 1280, height: int = 900) -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=_QUIET)
        page = browser.new_page(viewport={"width": width, "height": height})
        page.set_default_timeout(HANG_S * 1000)
        yield page
        browser.close()


@contextmanager
def served(command: Sequence[str], health: str, port: int = 0, *, cwd: Path, env: Mapping[str, str]) -> Iterator[str]:
    """Where ``command --port N`` serves, from when its ``health`` path answers; killed with its children at the end."""
    process, url = start_serving(command, health, port, cwd=cwd, env=env)
    try:
        yield url
    finally:
        end(process)


def start_serving(
    command: Sequence[str], health: str, port: int = 0, **options: Any
) -> tuple[subprocess.Popen[bytes], str]:
    """The process of ``command --port N`` and where it serves, once its ``health`` path answers.

    Port 0 takes a free one, and another one where somebody was faster.
    """
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    for _ in range(5):
        number = str(port or free_port())
        url = f"http://127.0.0.1:{number}"
        process = subprocess.Popen([*command, "--port", number], start_new_session=True, **quiet, **options)
        wait_until(lambda process=process, url=url: process.poll() is not None or _answers(url + health))
        if process.poll() is None:
            return process, url
    raise AssertionError(f"{command} ended with code {process.returncode}")


def end(process: subprocess.Popen[bytes]) -> None:
    """Kill a process and its children; harmless to call again."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def _answers(url: str) -> bool:
    with suppress(OSError):
        return bool(urllib.request.urlopen(url, timeout=10).status == 200)
    return False
