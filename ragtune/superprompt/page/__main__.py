"""``python -m ragtune.superprompt.page [--corpus DIR] [--config FILE] [--port N]``: serve the page on this machine."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from ragtune.core.errors import InputError, MissingExtraError
from ragtune.superprompt.memory.inputs import read_folder
from ragtune.superprompt.options import load_options
from ragtune.superprompt.page.session import CONFIG_VARIABLE, CORPUS_VARIABLE, FILE_MIB
from ragtune.superprompt.parts import check_options

OPTIONS = {
    # Settings can send a variable's value to a server, so only the person at this machine may reach them.
    "server_address": "127.0.0.1",
    "server_headless": True,
    "server_fileWatcherType": "none",
    "server_maxUploadSize": FILE_MIB,
    "browser_gatherUsageStats": False,
    "client_toolbarMode": "minimal",
    "client_showErrorDetails": "none",
    "theme_primaryColor": "#2f6b8f",
}


def main() -> int:
    """Serve the page until Ctrl-C; exit code 2 on bad input."""
    parser = argparse.ArgumentParser(prog="python -m ragtune.superprompt.page", description=__doc__)
    parser.add_argument("--corpus", type=Path, help="folder or file of any form that ragtune ingest reads")
    parser.add_argument("--config", type=Path, help="options, as ragtune prompt --print-config shows them")
    parser.add_argument("--port", type=int, default=8501)
    arguments = parser.parse_args()
    try:
        from streamlit.web import bootstrap

        options = load_options(arguments.config)
        check_options(options)
        if folder := arguments.corpus or options.memory.folder:
            read_folder(folder)
    except ModuleNotFoundError:
        sys.stderr.write(f"ragtune: {MissingExtraError('the page', 'ui')}\n")
        return 2
    except InputError as error:
        sys.stderr.write(f"ragtune: {' '.join(str(error).split())}\n")
        return 2
    for variable, path in ((CORPUS_VARIABLE, arguments.corpus), (CONFIG_VARIABLE, arguments.config)):
        if path is not None:
            os.environ[variable] = str(path.expanduser().resolve())
    bootstrap.load_config_options({**OPTIONS, "server_port": arguments.port})
    bootstrap.run(str(Path(__file__).with_name("app.py")), False, [], {})
    return 0


if __name__ == "__main__":
    sys.exit(main())
