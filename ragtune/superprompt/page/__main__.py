"""``python -m ragtune.superprompt.page [--corpus DIR] [--config FILE] [--port N]``: serve the page on this machine."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from ragtune.core.errors import InputError, MissingExtraError
from ragtune.superprompt.memory.inputs import read_folder
from ragtune.superprompt.options import load_options
from ragtune.superprompt.page.session import CONFIG_VARIABLE, CORPUS_VARIABLE, FILE_MIB
from ragtune.superprompt.parts import check_options

OPTIONS = {
    # Settings can send a variable's value to a server, so only the person at this machine may reach them.
    "server.address": "127.0.0.1",
    "server.headless": True,
    "server.fileWatcherType": "none",
    "server.maxUploadSize": FILE_MIB,
    "browser.gatherUsageStats": False,
    "client.toolbarMode": "minimal",
    "client.showErrorDetails": "none",
    "theme.primaryColor": "#2f6b8f",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Serve the page until Ctrl-C; exit code 2 on bad input."""
    parser = argparse.ArgumentParser(prog="python -m ragtune.superprompt.page", description=__doc__)
    parser.add_argument("--corpus", type=Path, help="folder of Markdown and text files, or in BEIR's layout")
    parser.add_argument("--config", type=Path, help="options, as ragtune prompt --print-config shows them")
    parser.add_argument("--port", type=int, default=8501)
    arguments = parser.parse_args(argv)
    try:
        if find_spec("streamlit") is None:
            raise MissingExtraError("the page", "ui")
        if arguments.corpus is not None:
            read_folder(arguments.corpus)
            os.environ[CORPUS_VARIABLE] = str(arguments.corpus.resolve())
        if arguments.config is not None:
            options = load_options(arguments.config)
            check_options(options)
            if options.memory.folder is not None:
                read_folder(options.memory.folder)
            os.environ[CONFIG_VARIABLE] = str(arguments.config.expanduser().resolve())
    except InputError as error:
        sys.stderr.write(f"ragtune: {' '.join(str(error).split())}\n")
        return 2
    from streamlit.web import bootstrap

    options_of_server = {**OPTIONS, "server.port": arguments.port}
    bootstrap.load_config_options({name.replace(".", "_"): value for name, value in options_of_server.items()})
    bootstrap.run(str(Path(__file__).with_name("app.py")), False, [], {})
    return 0


if __name__ == "__main__":
    sys.exit(main())
