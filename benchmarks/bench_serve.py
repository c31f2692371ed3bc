"""Load on ``ragtune serve``: how long requests wait, how many fail, and whether the bills agree.

    python benchmarks/bench_serve.py [--rows NAME ...] [--seconds 60] [--documents 100] [--model FOLDER] [--json FILE]

A client is a connection with one request at a time: a query of nfcorpus and the best of its first stage, from the
collections beside the checkout. Server, load and upstream are processes of their own on the same cores.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import os
import random
import re
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import psutil
from machine import report

SHARED = Path(__file__).parents[2] / "shared"
HEAD = "POST /v2/rerank HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
COLUMNS = (
    "requests",
    "requests_per_s",
    "p50_ms",
    "p99_ms",
    "5xx",
    "lost",
    "reranked",
    "loss",
    "late",
    "billed",
    "possible",
)


@dataclass(frozen=True)
class Row:
    """A line of the table: clients with a budget, and the upstream's seconds a call; None for the local model."""

    clients: int
    budget: Mapping[str, float | None]
    delay_s: float | None = None
    down: float = 0.0  # share of the time in which the upstream is dead; kill -9 ends it
    requests: int | None = None
    options: tuple[str, ...] = field(default=("--batch-size", "5"))


ROWS = {
    "1 client, docs=20": Row(1, {"docs": 20}),
    "5 clients, ms=1000": Row(5, {"ms": 1000}),
    "50 clients, docs=20": Row(50, {"docs": 20}),
    "50 clients, all documents": Row(50, {}),
    "50 clients, instant upstream, all": Row(50, {}, 0.0, options=()),
    "50 clients, instant upstream, docs=20": Row(50, {"docs": 20}, 0.0, options=("--batch-size", "20")),
    "50 clients, upstream of 2 s, all": Row(50, {}, 2.0, options=()),
    "50 clients, upstream of 2 s, docs=20 in 4 calls": Row(50, {"docs": 20}, 2.0),
    "50 clients, upstream of 2 s, ms=1000": Row(50, {"ms": 1000}, 2.0, options=()),
    "50 clients, upstream killed": Row(50, {"docs": 20}, 0.005, 0.3, 5000, options=("--batch-size", "20")),
}


def requests(documents: int, collection: str = "nfcorpus") -> dict[str, dict[str, Any]]:
    """By query id, a request for every query that the first stage finds so many documents for."""
    data = SHARED / "data" / collection
    texts, queries = ({one["_id"]: one for one in _lines(data / f"{name}.jsonl")} for name in ("corpus", "queries"))
    return {
        query_id: {
            "query": queries[query_id]["text"],
            "documents": [f"{texts[doc_id]['title']} {texts[doc_id]['text']}" for doc_id, _ in best[:documents]],
            "scores": [score for _, score in best[:documents]],
        }
        for query_id, best in sorted(_run(data / "runs" / "bm25.run").items())
        if len(best) >= documents
    }


def _run(file: Path) -> dict[str, list[tuple[str, float]]]:
    found: dict[str, list[tuple[str, float]]] = {}
    for line in file.read_text(encoding="utf-8").splitlines():
        query_id, _, doc_id, _, score, _ = line.split()
        found.setdefault(query_id, []).append((doc_id, float(score)))
    return found


def loss(documents: int, collection: str, tops: list[tuple[int, list[int]]]) -> float:
    """How much nDCG@10 the answers lose against all documents in the order of the model's recorded scores."""
    data = SHARED / "data" / collection
    first, scores = _run(data / "runs" / "bm25.run"), _run(data / "scores" / "ce.run")
    judged: dict[str, dict[str, int]] = {}
    for line in (data / "qrels" / "test.tsv").read_text(encoding="utf-8").splitlines()[1:]:
        query_id, doc_id, grade = line.split()
        judged.setdefault(query_id, {})[doc_id] = int(grade)
    query_ids = [query_id for query_id, best in sorted(first.items()) if len(best) >= documents]
    losses = []
    for number, top in tops:
        query_id = query_ids[number]
        if grades := judged.get(query_id):
            given = [doc_id for doc_id, _ in first[query_id][:documents]]
            read = dict(scores[query_id])
            full = sorted(given, key=lambda doc_id: -read.get(doc_id, 0.0))
            losses.append(_ndcg(grades, full) - _ndcg(grades, [given[i] for i in top]))
    return sum(losses) / len(losses) if losses else math.nan


def _ndcg(grades: Mapping[str, int], ranked: list[str]) -> float:
    def dcg(gains: list[int]) -> float:
        return sum(gain / math.log2(rank + 2) for rank, gain in enumerate(gains[:10]))

    best = dcg(sorted(grades.values(), reverse=True))
    return dcg([grades.get(doc_id, 0) for doc_id in ranked[:10]]) / best if best else 0.0


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    with path.open(encoding="utf-8") as lines:
        yield from map(json.loads, lines)


@contextmanager
def server(options: list[str]) -> Iterator[tuple[psutil.Process, int]]:
    command = [sys.executable, "-m", "ragtune", "serve", "--port", "0", "--store", "memory", *options]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RAGTUNE_")}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            yield psutil.Process(process.pid), int(line.split("http://127.0.0.1:")[1].split()[0])
        finally:
            process.terminate()
            process.wait(600)


class Upstream:
    """A rerank server in Cohere's shape, in a process that dies by kill -9 again and again if it is to."""

    def __init__(self, row: Row, folder: Path) -> None:
        self.ledger = folder / "ledger"
        self.ledger.write_text("")
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self._command = [sys.executable, __file__, "--serve", str(self.port), str(row.delay_s), str(self.ledger)]
        self._down, self._is_over = row.down, threading.Event()
        self._process = self._start()
        self._thread = threading.Thread(target=self._kill, daemon=True)
        if row.down:
            self._thread.start()

    def _start(self) -> subprocess.Popen[str]:
        process = subprocess.Popen(self._command, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        process.stdout.readline()
        return process

    def _kill(self) -> None:
        draws = random.Random(0)
        while not self._is_over.wait(draws.uniform(0.3, 1.5)):
            begun = time.monotonic()
            self._process.kill()
            self._process.wait()
            self._is_over.wait(draws.uniform(0.3, 1.5) * self._down / (1.0 - self._down) - (time.monotonic() - begun))
            self._process = self._start()

    def close(self) -> int:
        """End the process; returns the search units in its ledger."""
        self._is_over.set()
        if self._down:
            self._thread.join()
        self._process.kill()
        self._process.wait()
        return sum(map(int, self.ledger.read_text().split()))


async def serve_upstream(port: int, delay_s: float, ledger: Path) -> None:
    """Score every document by its place. A call is in the ledger before a byte of its answer is sent."""
    with ledger.open("ab", buffering=0) as book:

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                while head := await reader.readuntil(b"\r\n\r\n"):
                    body = await reader.readexactly(_length(head))
                    count = int(re.findall(rb'"top_n": ?(\d+)', body)[-1])
                    await asyncio.sleep(delay_s)
                    units = -(-count // 100)
                    book.write(b"%d\n" % units)
                    rows = [{"index": i, "relevance_score": round(1.0 - i / 1000.0, 4)} for i in range(count)]
                    reply = json.dumps({"results": rows, "meta": {"billed_units": {"search_units": units}}}).encode()
                    writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: ")
                    writer.write(b"%d\r\n\r\n" % len(reply) + reply)
                    await writer.drain()
            except (asyncio.IncompleteReadError, ConnectionError):
                writer.close()

        async with await asyncio.start_server(serve, "127.0.0.1", port, limit=2**24, backlog=1024):
            print("ready", flush=True)
            await asyncio.Event().wait()


def _length(head: bytes) -> int:
    return int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])


def drive(port: int, clients: int, seconds: float, most: int, file: Path) -> None:
    """The load in bare HTTP, so that it costs as little as it can; prints what it saw as JSON."""
    bodies = [json.dumps(one).encode() for one in json.loads(file.read_text(encoding="utf-8"))]
    seen: list[tuple[float, int, bytes, int]] = []
    until = time.perf_counter() + seconds
    left = iter(range(most))

    async def keep_busy(number: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=2**24)
        while time.perf_counter() < until and next(left, None) is not None:
            body, place = bodies[number % len(bodies)], number % len(bodies)
            number += 1
            started = time.perf_counter()
            writer.write(f"{HEAD}Content-Length: {len(body)}\r\n\r\n".encode() + body)
            head = await reader.readuntil(b"\r\n\r\n")
            content = await reader.readexactly(_length(head))
            seen.append((1000.0 * (time.perf_counter() - started), int(head.split(b" ", 2)[1]), content, place))
            if b"connection: close" in head.lower():
                writer.close()
                reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=2**24)
        writer.close()

    async def run() -> None:
        await asyncio.gather(*(keep_busy(i * len(bodies) // clients) for i in range(clients)))

    started = time.perf_counter()
    asyncio.run(run())
    spent = time.perf_counter() - started
    times = sorted(ms for ms, *_ in seen)
    answers = [json.loads(content) for _, status, content, _ in seen if status == 200]
    places = [place for _, status, _, place in seen if status == 200]
    accounts = [answer["ragtune"] for answer in answers]
    documents = json.loads(bodies[0])["documents"]
    print(
        json.dumps(
            {
                "requests": len(seen),
                "requests_per_s": len(seen) / spent,
                "p50_ms": times[len(times) // 2],
                "p99_ms": times[int(0.99 * (len(times) - 1))],
                "max_ms": times[-1],
                "5xx": sum(status >= 500 for _, status, *_ in seen),
                "status": Counter(status for _, status, *_ in seen),
                "tops": [
                    (place, [one["index"] for one in answer["results"][:10]])
                    for place, answer in zip(places, answers, strict=True)
                ],
                "lost": sum(len(documents) - len({one["index"] for one in answer["results"]}) for answer in answers),
                "reranked": sum(len(one["reranked"]) for one in accounts) / max(1, len(accounts)),
                "unranked": sum(not one["reranked"] for one in accounts),
                "late": sum("late" in one["stop"].get("reason", "") for one in accounts),
                "billed": sum(answer["meta"]["billed_units"]["search_units"] for answer in answers),
                "possible": sum(one.get("possible", {}).get("search_units", 0) for one in accounts),
                "stops": Counter(one["stop"].get("reason", "") for one in accounts),
                "warnings": Counter(
                    re.sub(r"[0-9.]+", "#", text)[:160] for one in answers for text in one["meta"].get("warnings", ())
                ),
            }
        )
    )


def measure(row: Row, arguments: argparse.Namespace, file: Path) -> dict[str, Any]:
    with ExitStack() as stack:
        options = list(row.options)
        if row.delay_s is None:
            options += ["--model", str(arguments.model), "--max-length", str(arguments.max_length)]
        else:
            upstream = Upstream(row, file.parent)
            stack.callback(upstream.close)
            options += ["--model", f"http://127.0.0.1:{upstream.port}/v2/rerank", "--upstream-model", "stub"]
        process, port = stack.enter_context(server([*options, *arguments.option]))
        bodies = [one | {"budget": row.budget} for one in json.loads(file.read_text(encoding="utf-8"))]
        asked = file.with_name("row.json")
        asked.write_text(json.dumps(bodies), encoding="utf-8")
        load = [sys.executable, __file__, "--drive", str(port), str(asked)]
        warm = subprocess.run([*load, "2", "2", "1000"], check=True, stdout=subprocess.PIPE, text=True)
        before = process.cpu_times()
        most = str(row.requests or 10**9)
        seconds = str(arguments.seconds if row.requests is None else 3600.0)
        done = subprocess.run([*load, str(row.clients), seconds, most], check=True, stdout=subprocess.PIPE, text=True)
        after, seen = process.cpu_times(), json.loads(done.stdout)
        cpu_s = after.user + after.system - before.user - before.system
        seen["loss"] = loss(arguments.documents, arguments.collection, seen.pop("tops"))
        seen |= {"cpu_ms_per_request": 1000.0 * cpu_s / seen["requests"], "rss_mb": process.memory_info().rss / 2**20}
        if row.delay_s is not None:
            seen["upstream"] = upstream.close() - json.loads(warm.stdout)["billed"]
        return seen


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", nargs="+", metavar="NAME", help=f"rows whose name has one of these: {[*ROWS]}")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--collection", default="nfcorpus", help="nfcorpus or medline")
    parser.add_argument("--documents", type=int, default=100, help="candidates of a request")
    parser.add_argument("--max-length", type=int, default=192, help="tokens of a pair, as the recorded scores have it")
    parser.add_argument("--model", type=Path, default=SHARED / "models" / "ce-minilm-nfcorpus-scifact")
    parser.add_argument("--option", action="append", default=[], help="further option of the server; repeatable")
    parser.add_argument("--json", type=Path, help="where the figures go as well")
    parser.add_argument("--serve", nargs=3, metavar=("PORT", "SECONDS", "LEDGER"), help=argparse.SUPPRESS)
    parser.add_argument("--drive", nargs=5, metavar="X", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve:
        port, delay_s, ledger = arguments.serve
        asyncio.run(serve_upstream(int(port), float(delay_s), Path(ledger)))
        return
    if arguments.drive:
        port, file, clients, seconds, most = arguments.drive
        drive(int(port), int(clients), float(seconds), int(most), Path(file))
        return
    if not SHARED.is_dir():
        print("bench_serve.py: the collections beside the checkout (../shared) are absent")
        return
    figures = {}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "requests.json"
        file.write_text(json.dumps([*requests(arguments.documents, arguments.collection).values()]), encoding="utf-8")
        print(f"| row | {' | '.join(COLUMNS)} | upstream | cpu_ms |\n|{'---|' * (len(COLUMNS) + 3)}")
        for name, row in ROWS.items():
            if arguments.rows is None or any(part in name for part in arguments.rows):
                seen = figures[name] = measure(row, arguments, file)
                shown = [*(seen[column] for column in COLUMNS), seen.get("upstream", ""), seen["cpu_ms_per_request"]]
                cells = (f"{cell:.4g}" if isinstance(cell, float) else str(cell) for cell in shown)
                print(f"| {name} | {' | '.join(cells)} |", flush=True)
    rows = {name: asdict(ROWS[name]) | {"seen": seen} for name, seen in figures.items()}
    report(rows, arguments.json)


if __name__ == "__main__":
    main()
