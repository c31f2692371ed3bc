"""Finished shards of a run as files that outlive every process."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

from experiments.evaluate.record import QueryRecord
from ragtune.core.errors import ConfigError

_ENDING = ".jsonl.zst"
"""How names of files end, which are compressed: a sixth of the bytes travels."""

_ENDINGS = (_ENDING, ".jsonl")
"""The same, and how those of former versions end."""

_GCS_PATIENCE_S = 60
"""How long Google's client tries again: its own 15 minutes pass in silence where address or credentials are wrong."""


class ShardFiles:
    """A folder of files of records, on a disk that all machines share or in object storage.

    Args:
        storage: a folder, or an address of ``pyarrow.fs``: ``s3://bucket/folder``, ``gs://bucket/folder``, ``file:///``,
            with Arrow's options behind a ``?``, such as ``endpoint_override``.
        run: what tells the run from every other; each has a folder of its own.
    """

    def __init__(self, storage: str, run: str) -> None:
        # Absolute before it travels: workers are at home elsewhere.
        self._storage, self._run = storage if "://" in storage else str(Path(storage).absolute()), run

    def write(self, records: Sequence[QueryRecord]) -> str:
        """Keep the records of a shard; the name of its file. Until it is whole, it is not found.

        Raises:
            ConfigError: if nothing can be written there.
        """
        name = sha256(" ".join(record.query_id for record in records).encode()).hexdigest()[:16] + _ENDING
        try:
            files, folder = self._open()
            files.create_dir(folder)
            with files.open_output_stream(f"{folder}/{name}.part", compression="zstd") as file:
                for record in records:
                    file.write(record.to_line() + b"\n")
            files.move(f"{folder}/{name}.part", f"{folder}/{name}")
        except OSError as error:
            raise self._refused(error) from None
        return name

    def read(self, name: str) -> list[QueryRecord]:
        """The records of one shard.

        Raises:
            OSError, TypeError, KeyError, ValueError: if its file is damaged.
        """
        return _records(name, self._content(name))

    def finished(self) -> Iterator[list[QueryRecord]]:
        """The records of each whole shard; one that a crash cut short or garbled counts as unfinished.

        Raises:
            ConfigError: if the storage cannot be reached.
        """
        from pyarrow.fs import FileSelector

        try:
            files, folder = self._open()
            found = files.get_file_info(FileSelector(folder, allow_not_found=True))
        except OSError as error:
            raise self._refused(error) from None
        for name in sorted(info.base_name for info in found):
            if name.endswith(_ENDINGS):
                content = self._content(name)  # outside, since storage that cannot be reached is no damage
                try:
                    records = _records(name, content)
                except (OSError, TypeError, KeyError, ValueError):
                    continue
                yield records

    def clear(self) -> None:
        """Remove the files of this run, if there are any.

        Raises:
            ConfigError: if the storage cannot be reached.
        """
        from pyarrow.fs import FileType

        try:
            files, folder = self._open()
            if files.get_file_info(folder).type != FileType.NotFound:
                files.delete_dir(folder)
        except OSError as error:
            raise self._refused(error) from None

    def _content(self, name: str) -> bytes:
        files, folder = self._open()
        with files.open_input_stream(f"{folder}/{name}", compression=None) as file:
            content: bytes = file.read()
        return content

    def _open(self) -> tuple[Any, str]:
        from pyarrow.fs import FileSystem, LocalFileSystem

        if "://" not in self._storage:
            return LocalFileSystem(), f"{self._storage}/{self._run}"
        address = self._storage
        if address.startswith(("gs://", "gcs://")) and "retry_limit_seconds=" not in address:
            address += f"{'&' if '?' in address else '?'}retry_limit_seconds={_GCS_PATIENCE_S}"
        try:
            files, folder = FileSystem.from_uri(address)
        except (OSError, ValueError) as error:
            raise self._refused(error) from None
        if not folder:
            raise self._refused("it names no bucket")
        return files, f"{folder.rstrip('/')}/{self._run}"

    def _refused(self, error: Exception | str) -> ConfigError:
        reason = " ".join(str(error).split())
        return ConfigError(
            f"executor.storage={self._storage!r}: {reason}; allowed is a folder, s3://BUCKET/... or gs://BUCKET/..."
        )


def _records(name: str, content: bytes) -> list[QueryRecord]:
    if name.endswith(_ENDING):
        import pyarrow as pa

        content = pa.CompressedInputStream(pa.BufferReader(content), "zstd").read()
    return [QueryRecord.from_line(line) for line in content.split(b"\n")[:-1]]
