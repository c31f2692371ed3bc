"""How many retrievals a second ``ragtune serve`` answers over loopback, with a real PostgreSQL behind it.

    python benchmarks/bench_rest.py [--seconds 20] [--connections 8] [--chunks 10000] [--mode vector] [--json FILE]

The server is a process of its own with the hashing embedder; another process keeps N connections busy, each with one
request at a time (k = 12, no query twice). Target, on 2 cores that server, database and load share: at least 300
requests/s, p99 under 100 ms, no error and flat memory in ``--seconds 300``.
"""

from __future__ import annotations

import argparse
import asyncio
import http.client
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
from machine import report

K = 12
VOCABULARY = 20_000
WORDS = 60
BATCH = 500
HEAD = "POST /v1/retrieve HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"


def words(rng: random.Random, count: int) -> str:
    """Words by Zipf's law."""
    return " ".join(f"w{int(VOCABULARY ** rng.random())}" for _ in range(count))


class Api:
    def __init__(self, port: int) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)

    def post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        self._connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
        response = self._connection.getresponse()
        content = response.read()
        assert response.status == 200, content
        answer: dict[str, Any] = json.loads(content)
        return answer


@contextmanager
def server(folder: str) -> Iterator[tuple[psutil.Process, int]]:
    command = [sys.executable, "-m", "ragtune", "serve", "--port", "0", "--data-dir", folder]
    environment = {name: value for name, value in os.environ.items() if name not in ("RAGTUNE_DSN", "RAGTUNE_API_KEY")}
    environment["RAGTUNE_CACHE"] = str(Path(folder) / "cache")
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            yield psutil.Process(process.pid), int(line.split("http://127.0.0.1:")[1].split()[0])
        finally:
            process.terminate()
            process.wait(60)


def fill(port: int, chunks: int) -> None:
    api, rng = Api(port), random.Random(0)
    api.post("/v1/collections", {"collection": "bench"})
    for start in range(0, chunks, BATCH):
        made = [
            {"doc_id": f"d{number}", "chunk_index": 0, "content": words(rng, WORDS)}
            for number in range(start, min(start + BATCH, chunks))
        ]
        api.post("/v1/index", {"collection": "bench", "chunks": made})


async def keep_busy(port: int, until: float, seed: int, mode: str, times: list[float], bad: list[str]) -> None:
    """One connection; bare HTTP, so that the load costs as little as it can."""
    rng = random.Random(seed)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    while time.perf_counter() < until:
        request = {"collection": "bench", "query": words(rng, 5), "plan": {"mode": mode, "k": K}}
        body = json.dumps(request).encode()
        head = f"{HEAD}Content-Length: {len(body)}\r\n\r\n"
        started = time.perf_counter()
        writer.write(head.encode() + body)
        answer = await reader.readuntil(b"\r\n\r\n")
        length = int(answer.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
        content = await reader.readexactly(length)
        times.append(time.perf_counter() - started)
        if not answer.startswith(b"HTTP/1.1 200 ") or content.count(b'"doc_id"') != K:
            bad.append((answer + content)[:300].decode())
    writer.close()


def drive(port: int, seconds: float, connections: int, mode: str) -> None:
    """The load; prints what it saw as JSON."""
    times: list[float] = []
    bad: list[str] = []

    async def run() -> None:
        until = time.perf_counter() + seconds
        seeds = range(1, connections + 1)
        await asyncio.gather(*(keep_busy(port, until, seed, mode, times, bad) for seed in seeds))

    started = time.perf_counter()
    asyncio.run(run())
    spent = time.perf_counter() - started
    times.sort()
    places = {"p50_ms": 0.5, "p99_ms": 0.99, "max_ms": 1.0}
    figures = {name: 1000 * times[min(len(times) - 1, int(share * len(times)))] for name, share in places.items()}
    cpu = sum(os.times()[:2])
    print(
        json.dumps(
            {"requests": len(times), "seconds": spent, **figures, "errors": len(bad), "first": bad[:1], "cpu": cpu}
        )
    )


def cpu_seconds(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def database_cpu(folder: str) -> float:
    """Of PostgreSQL, those of its processes included that have ended."""
    postmaster = int((Path(folder) / "pgdata" / "postmaster.pid").read_text().split("\n")[0])
    root = psutil.Process(postmaster)
    own = root.cpu_times()
    return sum(map(cpu_seconds, [root, *root.children()])) + float(own.children_user + own.children_system)


def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)  # the database runs as another user where this one is root
        with server(folder) as (process, port):
            fill(port, arguments.chunks)
            load = [sys.executable, __file__, "--port", str(port), "--connections", str(arguments.connections)]
            load += ["--mode", arguments.mode]
            subprocess.run([*load, "--seconds", "3"], check=True, stdout=subprocess.DEVNULL)
            rss, cpu, database = process.memory_info().rss, cpu_seconds(process), database_cpu(folder)
            done = subprocess.run(
                [*load, "--seconds", str(arguments.seconds)], check=True, stdout=subprocess.PIPE, text=True
            )
            seen = json.loads(done.stdout)
            requests = seen["requests"]
            return {
                "requests_per_s": requests / seen["seconds"],
                **{name: seen[name] for name in ("requests", "p50_ms", "p99_ms", "max_ms", "errors", "first")},
                "server_cpu_ms": 1000 * (cpu_seconds(process) - cpu) / requests,
                "database_cpu_ms": 1000 * (database_cpu(folder) - database) / requests,
                "load_cpu_ms": 1000 * seen["cpu"] / requests,
                "rss_start_mb": rss / 2**20,
                "rss_end_mb": process.memory_info().rss / 2**20,
            }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--connections", type=int, default=8)
    parser.add_argument("--chunks", type=int, default=10_000)
    parser.add_argument("--mode", choices=("vector", "lexical", "hybrid"), default="vector")
    parser.add_argument("--port", type=int, help="only drive the load against a server that is filled")
    parser.add_argument("--json", type=Path, help="where the figures go as well")
    arguments = parser.parse_args()
    if arguments.port is not None:
        drive(arguments.port, arguments.seconds, arguments.connections, arguments.mode)
        return
    figures = measure(arguments)
    for name, value in figures.items():
        print(f"{name}: {value:.1f}" if isinstance(value, float) else f"{name}: {value}")
    report(figures, arguments.json)


if __name__ == "__main__":
    main()
