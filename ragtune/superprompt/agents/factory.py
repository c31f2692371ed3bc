"""Makes agents from JSON files."""

from __future__ import annotations

from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from ragtune.core.errors import ConfigError
from ragtune.llm.client import LLMClient
from ragtune.superprompt.agents.base import BaseAgent
from ragtune.superprompt.agents.config import CONFIG, AgentConfig
from ragtune.superprompt.frozen import flaws_in

AgentT = TypeVar("AgentT", bound=BaseAgent[Any])
ConfigT = TypeVar("ConfigT", bound=AgentConfig)

VERSION = "v1"
_PACKAGE = "ragtune.superprompt.agents.configs"


class AgentFactory:
    """Reads agents' configurations by name and connects them to a client.

    Files are named ``<name in lower case>.v1.json``. The factory reads a file each time and keeps none.

    Args:
        client: client of the language model; without one :meth:`agent` returns None.
        folder: folder of configurations that replace packaged ones of the same name.

    Raises:
        ConfigError: if the folder does not exist.
    """

    def __init__(self, client: LLMClient | None = None, folder: str | Path | None = None) -> None:
        self.client = client
        self.folder = None if folder is None else Path(folder).expanduser()
        if self.folder is not None and not self.folder.is_dir():
            raise ConfigError(f"agents folder {str(folder)!r}: there is no such folder")

    def config(self, name: str, kind: type[ConfigT]) -> ConfigT:
        """Return an agent's configuration by the name of its stage.

        Raises:
            ConfigError: if the file is missing, malformed, or of another kind or name.
        """
        file = f"{name.lower()}.{VERSION}.json"
        own = None if self.folder is None else self.folder / file
        source: Path | Traversable = own if own is not None and own.is_file() else files(_PACKAGE) / file
        try:
            config = CONFIG.validate_json(source.read_text(encoding="utf-8"))
        except ValidationError as error:
            raise ConfigError(f"agent configuration {source}: {flaws_in(error)}") from error
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"agent configuration {str(source)!r} cannot be read ({error})") from error
        if (config.agent_name, config.version) != (name, VERSION):
            found = f"{config.agent_name} {config.version}"
            raise ConfigError(f"agent configuration {source} is of {found}: allowed is {name} {VERSION}")
        if not isinstance(config, kind):
            raise ConfigError(f"agent configuration {source} is of kind {config.kind!r}: {name} needs {kind.__name__}")
        return config

    def agent(self, kind: type[AgentT], config: AgentConfig) -> AgentT | None:
        """Return an agent of a configuration, or None without a client."""
        return None if self.client is None else kind(config, self.client)
