"""How many rerank requests a second ``ragtune serve`` answers, within a budget and reranking everything.

    python benchmarks/bench_serve.py [--clients 50] [--seconds 60] [--docs 20] [--documents 100] [--model FOLDER]
        [--batch-size 5] [--json FILE]

Every client is a connection with one request at a time: a query of nfcorpus and the best of its first stage, from the
collections beside the checkout, reranked by the cross-encoder there. Each server is a process of its own, and so is the
load. Two ways: within the budget, and everything. Target on 2 cores that server and load share: within the budget at
least 3 times the requests/s of everything, p99 under 3 times p50, no error.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil

SHARED = Path(__file__).parents[2] / "shared"
HEAD = "POST /v2/rerank HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"


def requests(documents: int) -> list[dict[str, Any]]:
    """A request for every query of nfcorpus that its first stage finds so many documents for."""
    data = SHARED / "data" / "nfcorpus"
    texts, queries = ({one["_id"]: one for one in _lines(data / f"{name}.jsonl")} for name in ("corpus", "queries"))
    found: dict[str, list[tuple[str, float]]] = {}
    for line in (data / "runs" / "bm25.run").read_text(encoding="utf-8").splitlines():
        query_id, _, doc_id, _, score, _ = line.split()
        found.setdefault(query_id, []).append((doc_id, float(score)))
    return [
        {
            "query": queries[query_id]["text"],
            "documents": [f"{texts[doc_id]['title']} {texts[doc_id]['text']}" for doc_id, _ in best[:documents]],
            "scores": [score for _, score in best[:documents]],
        }
        for query_id, best in sorted(found.items())
        if len(best) >= documents
    ]


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    with path.open(encoding="utf-8") as lines:
        yield from map(json.loads, lines)


@contextmanager
def server(options: list[str]) -> Iterator[tuple[psutil.Process, int]]:
    command = [sys.executable, "-m", "ragtune", "serve", "--port", "0", "--store", "memory", *options]
    command += ["--timeout", "600"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RAGTUNE_")}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            yield psutil.Process(process.pid), int(line.split("http://127.0.0.1:")[1].split()[0])
        finally:
            process.terminate()
            process.wait(600)


async def keep_busy(
    port: int, until: float, bodies: list[bytes], first: int, times: list[float], bad: list[str]
) -> None:
    """One connection; bare HTTP, so that the load costs as little as it can."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    number = first
    while time.perf_counter() < until:
        body = bodies[number % len(bodies)]
        number += 1
        started = time.perf_counter()
        writer.write(f"{HEAD}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        answer = await reader.readuntil(b"\r\n\r\n")
        length = int(answer.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
        content = await reader.readexactly(length)
        times.append(time.perf_counter() - started)
        if not answer.startswith(b"HTTP/1.1 200 ") or b'"warnings"' in content:
            bad.append((answer + content)[:300].decode())
    writer.close()


def drive(port: int, seconds: float, clients: int, file: Path) -> None:
    """The load; prints what it saw as JSON."""
    bodies = [json.dumps(one).encode() for one in json.loads(file.read_text(encoding="utf-8"))]
    times: list[float] = []
    bad: list[str] = []

    async def run() -> None:
        until = time.perf_counter() + seconds
        starts = [i * len(bodies) // clients for i in range(clients)]
        await asyncio.gather(*(keep_busy(port, until, bodies, start, times, bad) for start in starts))

    started = time.perf_counter()
    asyncio.run(run())
    spent = time.perf_counter() - started
    times.sort()
    places = {"p50_ms": 0.5, "p99_ms": 0.99, "max_ms": 1.0}
    figures = {name: 1000 * times[min(len(times) - 1, int(share * len(times)))] for name, share in places.items()}
    rate = len(times) / spent
    print(json.dumps({"requests_per_s": rate, "requests": len(times), **figures, "errors": len(bad), "first": bad[:1]}))


def measure(arguments: argparse.Namespace) -> dict[str, dict[str, Any]]:
    ways = {
        "budget": ["--docs", str(arguments.docs)],
        "everything": [],
    }
    figures: dict[str, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "requests.json"
        file.write_text(json.dumps(requests(arguments.documents)), encoding="utf-8")
        for name, options in ways.items():
            shared = ["--model", str(arguments.model), "--batch-size", str(arguments.batch_size)]
            shared += ["--max-length", str(arguments.max_length)]
            with server([*shared, *options]) as (process, port):
                load = [sys.executable, __file__, "--port", str(port), "--clients", str(arguments.clients)]
                load += ["--requests", str(file)]
                warm = [*load, "--clients", "2", "--seconds", "3"]
                subprocess.run(warm, check=True, stdout=subprocess.DEVNULL)
                before = process.cpu_times()
                done = subprocess.run(
                    [*load, "--seconds", str(arguments.seconds)], check=True, stdout=subprocess.PIPE, text=True
                )
                after, seen = process.cpu_times(), json.loads(done.stdout)
                cpu_s = after.user + after.system - before.user - before.system
                more = {"cpu_s_per_request": cpu_s / seen["requests"], "rss_mb": process.memory_info().rss / 2**20}
                figures[name] = seen | more
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--clients", type=int, default=50)
    parser.add_argument("--docs", type=int, default=20, help="budget of a request")
    parser.add_argument("--documents", type=int, default=100, help="candidates of a request")
    parser.add_argument("--batch-size", type=int, default=5)
    parser.add_argument("--max-length", type=int, default=192, help="tokens of a pair, as the recorded scores have it")
    parser.add_argument("--model", type=Path, default=SHARED / "models" / "ce-minilm-nfcorpus-scifact")
    parser.add_argument("--port", type=int, help="only drive the load against a server that runs")
    parser.add_argument("--requests", type=Path, help="what the load sends, in JSON")
    parser.add_argument("--json", type=Path, help="where the figures go as well")
    arguments = parser.parse_args()
    if arguments.port is not None:
        drive(arguments.port, arguments.seconds, arguments.clients, arguments.requests)
        return
    if not SHARED.is_dir():
        print("bench_serve.py: the collections beside the checkout (../shared) are absent")
        return
    figures = measure(arguments)
    for way, seen in figures.items():
        print(f"{way}: " + ", ".join(f"{k} {v:.1f}" if isinstance(v, float) else f"{k} {v}" for k, v in seen.items()))
    rate = {way: seen["requests_per_s"] for way, seen in figures.items()}
    print(f"budget / everything: {rate['budget'] / rate['everything']:.2f}")
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
