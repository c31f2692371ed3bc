"""Makes agents from JSON files."""

from __future__ import annotations

import json
import re
from importlib.resources import files
from pathlib import Path
from typing import TypeVar

from pydantic import ValidationError

from ragtune.core.errors import ConfigError
from ragtune.llm.client import LLMClient
from ragtune.superprompt.agents.base import BaseAgent
from ragtune.superprompt.agents.chooser import Chooser
from ragtune.superprompt.agents.config import CONFIG, AgentConfig, ChooserConfig, ExtractorConfig, WriterConfig
from ragtune.superprompt.agents.extractor import Extractor
from ragtune.superprompt.agents.item_chooser import ItemChooser
from ragtune.superprompt.agents.writer import Writer

AgentT = TypeVar("AgentT", bound=BaseAgent)  # type: ignore[type-arg]
ConfigT = TypeVar("ConfigT", bound=AgentConfig)

DEFAULT_VERSION = "v1"

_PACKAGE = "ragtune.superprompt.agents.configs"
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,39}")
_VERSION = re.compile(r"v[0-9]{1,6}")


class AgentFactory:
    """Finds an agent's configuration by name and version, validates it, and gives it a client.

    Files are named ``<name in lower case>.<version>.json``. They are read anew each time: the factory holds where they
    are and the client, nothing else.

    Args:
        client: client of the language model; with None only configurations can be had, and :meth:`agent` gives None.
        folder: folder of configurations that come before the packaged ones of the same name and version.

    Raises:
        ConfigError: if the folder does not exist.
    """

    def __init__(self, client: LLMClient | None = None, folder: str | Path | None = None) -> None:
        self.client = client
        self.folder = None if folder is None else Path(folder).expanduser()
        if self.folder is not None and not self.folder.is_dir():
            raise ConfigError(f"agents folder {str(folder)!r}: there is no such folder")

    def config(self, name: str, kind: type[ConfigT], version: str = DEFAULT_VERSION) -> ConfigT:
        """An agent's configuration.

        Args:
            name: e.g. ``A2_PromptShaper``.
            kind: class that the configuration must be of.
            version: e.g. ``v1``.

        Raises:
            ConfigError: if there is no such file, or it is malformed or of another kind, name or version; the message
                names the file and the value.
        """
        text, where = self._read(name, version)
        try:
            config = CONFIG.validate_json(text)
        except ValidationError as error:
            raise ConfigError(f"agent configuration {where}: {_problems(error)}") from error
        if (config.agent_name, config.version) != (name, version):
            raise ConfigError(
                f"agent configuration {where} is of {config.agent_name} {config.version}: allowed is {name} {version}"
            )
        if not isinstance(config, kind):
            raise ConfigError(f"agent configuration {where} is of kind {config.kind!r}: {name} is a {_kind(kind)}")
        return config

    def agent(self, kind: type[AgentT], config: AgentConfig) -> AgentT | None:
        """An agent of a configuration, or None without a client."""
        if isinstance(config, ChooserConfig) and (config.over == "items") != issubclass(kind, ItemChooser):
            raise ConfigError(f"agent {config.title} chooses over {config.over}: {kind.__name__} does not")
        return None if self.client is None else kind(config, self.client)

    def chooser(self, name: str, version: str = DEFAULT_VERSION) -> Chooser | None:
        """A chooser over the whole input, by name; None without a client."""
        return self.agent(Chooser, self.config(name, ChooserConfig, version))

    def item_chooser(self, name: str, version: str = DEFAULT_VERSION) -> ItemChooser | None:
        """A chooser over items, by name; None without a client."""
        return self.agent(ItemChooser, self.config(name, ChooserConfig, version))

    def extractor(self, name: str, version: str = DEFAULT_VERSION) -> Extractor | None:
        """An extractor, by name; None without a client."""
        return self.agent(Extractor, self.config(name, ExtractorConfig, version))

    def writer(self, name: str, version: str = DEFAULT_VERSION) -> Writer | None:
        """A writer, by name; None without a client."""
        return self.agent(Writer, self.config(name, WriterConfig, version))

    def _read(self, name: str, version: str) -> tuple[str, str]:
        if not _NAME.fullmatch(name) or not _VERSION.fullmatch(version):
            raise ConfigError(f"agent {name!r} {version!r}: allowed are letters, digits and _, and v1, v2, ...")
        file = f"{name.lower()}.{version}.json"
        own = None if self.folder is None else self.folder / file
        if own is not None and own.is_file():
            try:
                return own.read_text(encoding="utf-8"), str(own)
            except (OSError, UnicodeDecodeError) as error:
                raise ConfigError(f"agent configuration {str(own)!r} cannot be read ({error})") from error
        packaged = files(_PACKAGE) / file
        if packaged.is_file():
            return packaged.read_text(encoding="utf-8"), file
        there = sorted(entry.name for entry in files(_PACKAGE).iterdir() if entry.name.endswith(".json"))
        raise ConfigError(f"agent {name!r} {version!r} has no configuration {file}: there are {', '.join(there)}")


def _kind(kind: type[AgentConfig]) -> str:
    names = {ChooserConfig: "chooser", ExtractorConfig: "extractor", WriterConfig: "writer"}
    return names.get(kind, kind.__name__)


def _problems(error: ValidationError) -> str:
    """Every flaw with its place and the value that is wrong."""
    flaws = error.errors(include_url=False, include_context=False)
    return "; ".join(
        f"{'.'.join(map(str, flaw['loc'])) or 'the file'}={json.dumps(flaw['input'], default=str)[:80]}: {flaw['msg']}"
        for flaw in flaws
    )
