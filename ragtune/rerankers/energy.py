"""Energy that the machine itself has measured, in joules; where it measures none, there is no figure at all."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ragtune.core.errors import ConfigError

RAPL = Path("/sys/class/powercap")
"""Where Linux shows the counters of Intel's and AMD's processors (Running Average Power Limit)."""


class EnergyMeter:
    """Reads what processors and accelerators have taken since they were switched on.

    The counters are the whole machine's: whatever else runs on it is counted too, so measure on an idle one. Processors
    report by the package (``intel-rapl:N``, memory included only where the package counts it), NVIDIA devices by NVML
    (library ``nvidia-ml-py``, all devices that are visible).

    Args:
        powercap: folder of the processors' counters.

    Raises:
        ConfigError: if the machine reports no energy that this process may read.
    """

    def __init__(self, powercap: Path = RAPL) -> None:
        self._powercap = powercap
        self._packages = [file for file in sorted(powercap.glob("intel-rapl:*/energy_uj")) if _is_package(file)]
        self._devices = _devices()
        if not self._packages and not self._devices:
            raise ConfigError(
                f"measure_energy=True: this machine reports no energy that can be read: there is neither "
                f"{powercap}/intel-rapl:*/energy_uj (often readable by root alone) nor an NVIDIA device (nvidia-ml-py)"
            )

    def __reduce__(self) -> tuple[type[EnergyMeter], tuple[Path]]:
        return EnergyMeter, (self._powercap,)  # a device's handle means nothing to another process

    @contextmanager
    def measuring(self) -> Iterator[list[float]]:
        """A list that holds the joules taken meanwhile, once it is over."""
        joules: list[float] = []
        packages, devices = self._read_packages(), self._read_devices()
        try:
            yield joules
        finally:
            taken = sum(after - before for before, after in zip(devices, self._read_devices(), strict=True)) / 1e3
            for file, before, after in zip(self._packages, packages, self._read_packages(), strict=True):
                # A counter begins again at 0 when it is full.
                round_trip = _number(file.with_name("max_energy_range_uj")) if after < before else 0
                taken += (after - before + round_trip) / 1e6
            joules.append(taken)

    def _read_packages(self) -> list[int]:
        return [_number(file) for file in self._packages]

    def _read_devices(self) -> list[int]:
        if not self._devices:
            return []
        import pynvml

        return [pynvml.nvmlDeviceGetTotalEnergyConsumption(device) for device in self._devices]


def _is_package(file: Path) -> bool:
    """Whether the counter is a package's own, not that of a part of one, and may be read."""
    if file.parent.name.count(":") != 1:
        return False
    try:
        _number(file)
    except OSError:
        return False
    return True


def _number(file: Path) -> int:
    return int(file.read_text(encoding="ascii"))


def _devices() -> list[Any]:
    """NVIDIA devices that count their energy; none without the library or a driver."""
    try:
        import pynvml
    except ImportError:
        return []
    try:
        pynvml.nvmlInit()
        devices = [pynvml.nvmlDeviceGetHandleByIndex(i) for i in range(pynvml.nvmlDeviceGetCount())]
        for device in devices:
            pynvml.nvmlDeviceGetTotalEnergyConsumption(device)
    except pynvml.NVMLError:
        return []
    return devices
