"""Renders a SuperPrompt: the snapshot, the queries, the blocks of the final prompt."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from ragtune.superprompt.reading.formats import without_format
from ragtune.superprompt.reading.schema import PromptSchema
from ragtune.superprompt.reading.text import clean, content_words, escape_borders, fenced, one_line
from ragtune.superprompt.super_prompt import SuperPrompt, Turn

RETRIEVAL_KEYS = ("task", "context", "purpose")
"""Keys of Retrieval's query (rule E7)."""

RERANK_KEYS = ("task", "purpose", "context", "format")
"""Keys of the reranker's query (rule E8)."""

PROMPT_KEYS = ("task", "purpose", "context", "text", "audience", "format", "constraints")
"""Keys of Prompt_MD (rule E12), with the user's text and constraints."""

RULE_KEYS = ("deterministic_rules", "deterministic_codes")
MANNER_KEYS = ("tone", "depth", "confidence")
NOTHING_FOUND = "(no context was selected)"


def compose_prompt_ready(sp: SuperPrompt, schema: PromptSchema) -> str:
    """Return a snapshot: ``body`` in the schema's order, unknown attributes, and S_CTX if there is one."""
    parts = [_part(title, sp.body[key]) for key, title in schema.keys.items() if sp.body.get(key)]
    parts += [_part(name, text) for name, text in sp.extras.get("unknown_attributes", {}).items()]
    if sp.s_ctx_md:
        parts.append(_part("S_CTX", sp.s_ctx_md))
    return "\n\n".join(parts)


def normalized_query(body: Mapping[str, str]) -> str:
    """Return task, context and purpose, each on its own line with white space collapsed."""
    return "\n".join(line for key in RETRIEVAL_KEYS if (line := one_line(body.get(key, ""))))


def subject_words(body: Mapping[str, str], request_words: Collection[str]) -> list[tuple[str, str]]:
    """Return the words of the query that name its subject, as pairs of lower-case word and term."""
    words = content_words(without_format(normalized_query(body)))
    return [pair for pair in words if pair[0] not in request_words]


def rerank_query(body: Mapping[str, str]) -> str:
    """Return the query for reranking: task, purpose, context and format, each on its own line."""
    return "\n".join(clean(body[key]) for key in RERANK_KEYS if body.get(key))


def system_md(sp: SuperPrompt, schema: PromptSchema) -> str:
    """Return the System block: ``system``; tone, depth and confidence; A5's rules, which hold the prompt's own."""
    lines = [f"- {schema.keys[key]}: {one_line(sp.body[key])}" for key in MANNER_KEYS if sp.body.get(key)]
    rules = [f"- {one_line(rule)}" for rule in sp.extras.get("format_enforcer", {}).get("hard_rules", ())]
    parts = [sp.body.get("system", ""), "\n".join(lines)]
    if rules:
        parts.append("Rules:\n" + "\n".join(rules))
    return _joined(escape_borders(part) for part in parts)


def prompt_md(sp: SuperPrompt, schema: PromptSchema) -> str:
    """Return the Prompt block: the request, the answer's shape, and unknown attributes."""
    parts = [_part(schema.keys[key], sp.body[key]) for key in PROMPT_KEYS if sp.body.get(key)]
    shape = sp.extras.get("format_enforcer", {}).get("example_shape")
    if shape:
        parts.append(_part("Example of the format", str(shape)))
    parts += [_part(name, text) for name, text in sp.extras.get("unknown_attributes", {}).items()]
    return _joined(parts)


def attachments_md(sp: SuperPrompt) -> str:
    """Return the Attachments block: every selected chunk, fenced, with source and span."""
    excerpts = [
        fenced(
            chunk.snippet,
            f"attachment {number}",
            SOURCE=f"{chunk.source} {chunk.id}",
            SPAN=f"{chunk.start}-{chunk.end}",
        )
        for number, chunk in enumerate(sp.chunks(sp.final_selection_ids), start=1)
    ]
    return "\n\n".join(excerpts) or NOTHING_FOUND


def conversation_md(turns: Sequence[Turn], max_pairs: int) -> str:
    """Return the Recent Conversation block: the last ``max_pairs`` turn pairs, oldest first, fenced; may be empty."""
    # A pair begins with the first turn, or a user's turn after another role.
    starts = [i for i, turn in enumerate(turns) if i == 0 or (turn.role == "user" and turns[i - 1].role != "user")]
    last = turns[starts[-max_pairs:][0] :] if starts and max_pairs > 0 else ()
    return "\n\n".join(fenced(turn.content, f"turn {n}", TURN=turn.role) for n, turn in enumerate(last, start=1))


def _part(title: str, text: str) -> str:
    return f"## {one_line(title)}\n{escape_borders(text)}"


def _joined(parts: Iterable[str]) -> str:
    return "\n\n".join(part for part in parts if part)
