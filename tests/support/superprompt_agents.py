"""A language model for the SuperPrompt agents: rules for the test server that answer as a sensible model would."""

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from llm_server import Chat, LLMServer, Rule, overlap

from ragtune.core.request.clock import Clock, VirtualClock
from ragtune.llm.client import LLMClient
from ragtune.superprompt import ContextChunk, Pipeline, PipelineConfig, SuperPrompt
from ragtune.superprompt.agents.agent import AgentConfig
from ragtune.superprompt.memory.documents import BaseMemory, DocumentMemory
from ragtune.superprompt.pipeline import build_pipeline
from ragtune.superprompt.stages.base import next_stage

FIELDS = {"system": "teacher", "audience": "beginner", "tone": "friendly", "depth": "brief", "confidence": "high"}
SHAPED = {**FIELDS, "certainty": 0.9}

AGENTS = {
    "A0_PreProcessing": "You map the headers",
    "A2_PromptShaper": "You classify prompts",
    "A3_NLI_Gate": "You decide which candidate passages",
    "A4_Condenser": "You condense sources",
    "A5_Format_Enforcer": "You restate the output format",
}
"""How each agent's system message begins."""


def asked_by(name: str) -> Callable[[Chat], bool]:
    """Whether a chat is that agent's."""
    return lambda chat: chat.text.startswith(AGENTS[name])


def numbered(chat: Chat, label: str) -> dict[int, str]:
    """Items of a chat by number."""
    matches = [(re.fullmatch(rf"{label} (\d+)", name), text) for name, text in chat.fenced.items()]
    return {int(match[1]): text for match, text in matches if match}


def snippet(item: str) -> str:
    """An item without its provenance."""
    return item.split("\n\n", 1)[-1]


def map_headers(chat: Chat) -> str:
    return json.dumps({"items": [{"id": n, "key": "purpose", "certainty": 0.95} for n in numbered(chat, "header")]})


def gate(chat: Chat) -> str:
    seen: set[str] = set()
    items = []
    for number, item in numbered(chat, "candidate").items():
        text = snippet(item)
        tag = "duplicate" if text in seen else None if overlap(chat.fenced["prompt"], text) else "off-topic"
        seen.add(text)
        items.append({"id": number, "decision": "drop" if tag else "keep", "tag": tag, "certainty": 0.9})
    return json.dumps({"items": items})


def condense(chat: Chat) -> str:
    sources = {number: snippet(item) for number, item in numbered(chat, "source").items()}
    facts = "\n".join(f"- {' '.join(text.split()[:8])} [{number}]" for number, text in sources.items())
    scores = {str(number): round(overlap(chat.fenced["prompt"], text), 3) for number, text in sources.items()}
    text = f"## Facts\n{facts}\n\n## Constraints\n- none\n\n## Open issues\n- none"
    return json.dumps({"s_ctx_md": text, "relevance": scores})


def enforce(chat: Chat) -> str:
    spec = f"Exactly this: {chat.fenced.get('format', 'anything')}"
    rules = ["Keep to the format."]
    return json.dumps({"normalized_format_spec": spec, "example_shape": "- item", "hard_rules": rules})


ANSWERS: Mapping[str, Callable[[Chat], str]] = {
    "A0_PreProcessing": map_headers,
    "A2_PromptShaper": lambda chat: json.dumps(SHAPED),
    "A3_NLI_Gate": gate,
    "A4_Condenser": condense,
    "A5_Format_Enforcer": enforce,
}


def _no_sleep(seconds: float) -> None:
    """Waits in no time; a function of the module, so that clients can be pickled."""


def agent_client(server: LLMServer, clock: Clock | None = None, **options: Any) -> LLMClient:
    """A live client of the server, which now knows the agents; no retries, no waiting."""
    server.rules[0:0] = [Rule(asked_by(name), answer) for name, answer in ANSWERS.items()]
    defaults: dict[str, Any] = {"model": "test", "base_url": server.url, "mode": "live", "max_retries": 0}
    defaults |= {"concurrency": 1, "clock": clock or VirtualClock(), "sleep": _no_sleep}
    return LLMClient(**(defaults | options))


def agent_pipeline(
    memory: BaseMemory, client: LLMClient | None = None, config: PipelineConfig | None = None, **options: Any
) -> Pipeline:
    """All stages, without a cross-encoder, on a virtual clock; options of the configuration may be given too."""
    changes = {name: options.pop(name) for name in ("agents", "a2_passes") if name in options}
    usual = {"rerank_stage": None, "client": client, "clock": VirtualClock()}
    config = (config or PipelineConfig.load()).model_copy(update=changes)
    return build_pipeline(config, memory=memory, **(usual | options))


def semantic(config: PipelineConfig, **modes: Any) -> PipelineConfig:
    changed = config.prompt_schema.modes.model_copy(update={"semantic_enabled": True, **modes})
    return config.model_copy(update={"prompt_schema": config.prompt_schema.model_copy(update={"modes": changed})})


def chunk_memory(texts: Mapping[str, str]) -> DocumentMemory:
    return DocumentMemory(
        ContextChunk(doc_id=name, chunk_index=0, content=text, source="memory") for name, text in texts.items()
    )


def own_agents(folder: Path, packaged: AgentConfig, **changes: Any) -> Path:
    values = packaged.model_dump(mode="json")
    mine = {**values, **changes}
    (folder / f"{packaged.agent_name.lower()}.{packaged.version}.json").write_text(json.dumps(mine))
    return folder


def advance(pipeline: Pipeline, sp: SuperPrompt, stage: str) -> SuperPrompt:
    while sp.stage != stage:
        sp = pipeline.run_stage(next_stage(sp), sp)
    return sp
