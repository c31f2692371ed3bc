"""A sweep on a real Slurm cluster of two nodes on this machine; ``make slurm`` runs it where Slurm is installed."""

import getpass
import os
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest
from command_line import content, finish, make_environment, start_script
from patience import HANG_S, wait_until
from web_pages import free_port

NODES = ("n1", "n2")
GRID = ("experiment=fixed_depth,uncertainty", "budget=tight,standard", "tracking=none", "verbosity=0")
LAUNCHER = ("hydra/launcher=submitit_slurm", "hydra.launcher.partition=cpu", "hydra.launcher.cpus_per_task=1",
            "hydra.launcher.mem_gb=1", "hydra.launcher.timeout_min=10")  # fmt: skip


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The configuration file of a cluster that is up, with an authentication service of its own."""
    folder = tmp_path_factory.mktemp("slurm")
    folder.chmod(0o755)
    file = _configured(folder)
    environment = {**os.environ, "SLURM_CONF": str(file)}
    commands = [
        ["munged", "--foreground", "--force", f"--socket={folder}/munge", f"--key-file={folder}/key",
         f"--pid-file={folder}/munged.pid", f"--seed-file={folder}/seed", f"--log-file={folder}/munged.log"],
        ["slurmctld", "-D", "-f", str(file)],
        *(["slurmd", "-D", "-f", str(file), "-N", node] for node in NODES),
    ]  # fmt: skip
    services = []
    try:
        for command in commands:
            services.append(subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL))
            if command[0] == "munged":
                wait_until((folder / "munge").exists)
        wait_until(lambda: _idle(environment) == len(NODES))
        yield file
    finally:
        for service in reversed(services):
            service.terminate()
            service.wait(HANG_S)


def _configured(folder: Path) -> Path:
    (folder / "key").write_bytes(os.urandom(128))
    (folder / "key").chmod(0o400)
    control, *ports = (free_port() for _ in range(1 + len(NODES)))
    host, user = socket.gethostname(), getpass.getuser()
    lines = [
        "ClusterName=ragtune", f"SlurmctldHost={host}(127.0.0.1)", f"SlurmctldPort={control}",
        f"SlurmUser={user}", f"SlurmdUser={user}", "AuthType=auth/munge", f"AuthInfo=socket={folder}/munge",
        "ProctrackType=proctrack/linuxproc", "TaskPlugin=task/none", "MpiDefault=none", "ReturnToService=2",
        f"StateSaveLocation={folder}", f"SlurmdSpoolDir={folder}/%n", f"SlurmctldPidFile={folder}/control.pid",
        f"SlurmdPidFile={folder}/%n.pid", f"SlurmctldLogFile={folder}/control.log",
        f"SlurmdLogFile={folder}/%n.log", "SelectType=select/cons_tres", "SelectTypeParameters=CR_Core",
        *(f"NodeName={node} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs=1 RealMemory=1024"
          for node, port in zip(NODES, ports, strict=True)),
        f"PartitionName=cpu Nodes={','.join(NODES)} Default=YES MaxTime=INFINITE State=UP",
    ]  # fmt: skip
    file = folder / "slurm.conf"
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return file


def _idle(environment: dict[str, str]) -> int:
    """How many nodes wait for work."""
    asked = ["sinfo", "--noheader", "--Node", "--states=idle", "--format=%N"]
    return len(subprocess.run(asked, env=environment, capture_output=True, text=True).stdout.split())


def test_a_sweep_on_slurms_nodes_leaves_what_one_in_this_process_does(slurm: Path, tmp_path: Path) -> None:
    environment = {**make_environment(tmp_path / "cache"), "SLURM_CONF": str(slurm)}
    for name, options in (("slurm", LAUNCHER), ("here", ())):
        words = ["-m", *GRID, *options, f"hydra.sweep.dir={tmp_path / name}"]
        ended = finish(start_script(*words, cwd=tmp_path, environment=environment))
        assert ended.code == 0, ended.err
    for job in range(4):
        assert content(tmp_path / "slurm" / str(job)) == content(tmp_path / "here" / str(job))
    assert pd.read_csv(tmp_path / "slurm" / "sweep.csv").equals(pd.read_csv(tmp_path / "here" / "sweep.csv"))
    assert len(list((tmp_path / "slurm" / ".submitit").glob("*/*_result.pkl"))) == 4
    assert set(_ran_on(slurm)) == set(NODES)


def _ran_on(slurm: Path) -> list[str]:
    return [node for node in NODES if "launch task" in (slurm.parent / f"{node}.log").read_text(encoding="utf-8")]
