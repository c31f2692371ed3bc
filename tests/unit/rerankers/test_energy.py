"""Counters as Linux and NVML show them; the machine that the tests run on may have none."""

from __future__ import annotations

import pickle
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from ragtune.core.errors import ConfigError
from ragtune.rerankers.energy import EnergyMeter
from ragtune.rerankers.models.cross_encoder import CrossEncoderReranker


@pytest.fixture
def powercap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two packages, and a part of the first, which the package counts already."""
    monkeypatch.setitem(sys.modules, "pynvml", None)
    for name in ("intel-rapl:0", "intel-rapl:1", "intel-rapl:0:0"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "energy_uj").write_text("900000\n")
        (tmp_path / name / "max_energy_range_uj").write_text("1000000\n")
    return tmp_path


def test_packages_add_up_and_a_counter_that_began_again_is_no_loss(powercap: Path) -> None:
    with pickle.loads(pickle.dumps(EnergyMeter(powercap))).measuring() as joules:
        (powercap / "intel-rapl:0" / "energy_uj").write_text("950000\n")
        (powercap / "intel-rapl:1" / "energy_uj").write_text("100000\n")
        (powercap / "intel-rapl:0:0" / "energy_uj").write_text("999999\n")
    assert joules == [pytest.approx(0.05 + 0.2)]


def test_devices_are_read_in_millijoules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counters = {0: 1000, 1: 5000}
    library = SimpleNamespace(
        NVMLError=RuntimeError,
        nvmlInit=lambda: None,
        nvmlDeviceGetCount=lambda: 2,
        nvmlDeviceGetHandleByIndex=lambda i: i,
        nvmlDeviceGetTotalEnergyConsumption=counters.__getitem__,
    )
    monkeypatch.setitem(sys.modules, "pynvml", library)
    with EnergyMeter(tmp_path).measuring() as joules:
        counters[1] += 2500
    assert joules == [2.5]


def test_a_machine_that_reports_nothing_is_refused_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    with pytest.raises(ConfigError, match=r"reports no energy that can be read: there is neither .*energy_uj"):
        EnergyMeter(tmp_path)


def test_scores_that_are_kept_have_no_energy(tiny_cross_encoder: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="measure_energy=True with cache_dir="):
        CrossEncoderReranker(tiny_cross_encoder, cache_dir=tmp_path, measure_energy=True)
