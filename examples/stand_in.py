"""A stand-in for a language model: an OpenAI-compatible server on this machine, for the shipped collection only.

It lets an example run where there is no model. It grades a document by the score that a small embedding model gave it
when the collection was recorded, so it is about as good a judge as that model.
"""

from __future__ import annotations

import json
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pandas as pd

THRESHOLDS = (0.65, 0.72, 0.8)
"""Scores from which the grade is 1, 2 and 3."""

_FENCED = re.compile(r"\[\[begin (\w+) .*?\]\]\n(.*?)\n\[\[end ", re.DOTALL)


def start(collection: Path) -> str:
    """Start the server in a thread that ends with the process.

    Args:
        collection: folder of the shipped collection.

    Returns:
        Its address, for ``base_url``.
    """
    scores = pd.read_parquet(collection / "scores" / "minilm.parquet").set_index(["query_id", "doc_id"])["score"]
    ids = {text: doc_id for doc_id, text in _texts(collection / "corpus.jsonl")}
    queries = {text: query_id for query_id, text in _texts(collection / "queries.jsonl")}

    class Chat(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            prompt = "\n".join(message["content"] for message in asked["messages"])
            shown = dict(_FENCED.findall(prompt))
            score = scores[queries[shown["query"]], ids[shown["document"]]]
            self.answer(asked["model"], prompt, {"grade": sum(bool(score >= t) for t in THRESHOLDS)})

        def answer(self, model: str, prompt: str, content: dict[str, Any]) -> None:
            message = {"role": "assistant", "content": json.dumps(content)}
            usage = {"prompt_tokens": len(prompt) // 4, "completion_tokens": 6, "total_tokens": len(prompt) // 4 + 6}
            choice = {"index": 0, "message": message, "finish_reason": "stop"}
            body = {"id": "1", "object": "chat.completion", "created": 0, "model": model, "choices": [choice]}
            sent = json.dumps({**body, "usage": usage}).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(sent)))
            self.end_headers()
            self.wfile.write(sent)

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Chat)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_port}/v1"


def _texts(file: Path) -> list[tuple[str, str]]:
    rows = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    return [(row["_id"], f"{row.get('title', '')} {row['text']}".strip()) for row in rows]
