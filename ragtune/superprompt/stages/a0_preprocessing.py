"""A0: from the user's text to a canonical body (rule E5)."""

from __future__ import annotations

import re
from typing import Any, ClassVar, NamedTuple

from ragtune.core.errors import ConfigError, LLMError, StageError
from ragtune.core.request.context import CostMeter
from ragtune.superprompt.agents.chooser import Chooser, ChooserConfig
from ragtune.superprompt.options import PipelineConfig
from ragtune.superprompt.reading.content import asks, leading_role
from ragtune.superprompt.reading.headers import PromptParser, PromptSection
from ragtune.superprompt.reading.schema import NEVER_DEFAULTED, Mapped, PromptSchema
from ragtune.superprompt.reading.text import clean, one_line
from ragtune.superprompt.rendering import compose_prompt_ready
from ragtune.superprompt.stages.base import BaseStage, failure_record
from ragtune.superprompt.super_prompt import SuperPrompt

_BETWEEN = "\n\n"
_KEY = "key"


class _Parts(NamedTuple):
    body: dict[str, str]
    unknown: dict[str, str]
    rules: list[str]


class A0PreProcessing(BaseStage):
    """Parses headers, maps them with the ladder and fills the MUST keys; run again, it clears everything downstream."""

    name: ClassVar[str] = "A0_PreProcessing"

    def __init__(self, chooser: Chooser | None = None) -> None:
        self.chooser = chooser

    def admit(self, sp: SuperPrompt) -> SuperPrompt:
        return sp.restarted()

    def apply(self, sp: SuperPrompt, config: PipelineConfig, meter: CostMeter) -> None:
        schema = config.prompt_schema
        sections = PromptParser(schema).sections(clean(sp.user_text))
        semantic = self._map_unknown(sections, config, meter)
        parts = _assemble(sections)
        _require_task(parts)
        missing = [key for key in NEVER_DEFAULTED if not parts.body.get(key)]
        defaulted = [key for key in schema.must_keys if key in schema.defaults and not parts.body.get(key)]
        body = parts.body | {key: schema.defaults[key] for key in defaulted} | dict.fromkeys(missing, "")
        sp.body = {key: body[key] for key in schema.keys if key in body}
        sp.extras |= {
            "normalized_map": {s.header.name: s.mapped.key for s in sections if s.header and s.mapped},
            "decisions": _decisions(sections),
            "rules": parts.rules,
            "unknown_attributes": parts.unknown,
            "defaults_used": defaulted,
            "missing": missing,
            "semantic_used": semantic,
        }
        sp.prompt_ready = compose_prompt_ready(sp, schema)

    def _map_unknown(self, sections: list[PromptSection], config: PipelineConfig, meter: CostMeter) -> dict[str, Any]:
        """Ask the chooser about unknown headers, and return a log of questions, answers and accepted answers."""
        modes = config.prompt_schema.modes
        unknown = dict.fromkeys(s.header.name for s in sections if s.header and not s.is_known)
        asked = list(unknown)[: modes.semantic_max_headers]
        log: dict[str, Any] = {"enabled": modes.semantic_enabled, "called": False, "asked": [], "choices": {}}
        if not modes.semantic_enabled or not asked:
            return log
        if self.chooser is None:
            return log | {"reason": "llm_off"}
        try:
            answers = self.chooser.choose_each({}, asked, meter)
        except LLMError as error:
            return log | failure_record(error, config, meter)
        choices: dict[str, dict[str, Any]] = {
            header: {"key": answer.fields[_KEY].value, "confidence": answer.certainty or 0.0}
            for header, answer in zip(asked, answers, strict=True)
        }
        accepted = [
            h for h, c in choices.items() if c["key"] is not None and c["confidence"] >= modes.semantic_threshold
        ]
        for section in sections:
            if section.header and section.mapped and section.header.name in accepted:
                choice = choices[section.header.name]
                because = f"chosen with confidence {choice['confidence']:g}"
                section.mapped = Mapped(choice["key"], "semantic", section.mapped.normalized, because)
        return log | {"called": True, "asked": asked, "choices": choices, "accepted": accepted}


def for_keys(config: ChooserConfig, schema: PromptSchema) -> ChooserConfig:
    """Return the chooser's configuration with the schema's keys as its allowed values."""
    if list(config.fields) != [_KEY]:
        raise ConfigError(f"agent {config.title} chooses {', '.join(config.fields)}: allowed is {_KEY}")
    closed = config.fields[_KEY].model_copy(update={"enum": tuple(schema.keys)})
    return config.model_copy(update={"fields": {_KEY: closed}})


def _assemble(sections: list[PromptSection]) -> _Parts:
    """Join sections of the same key in order, then apply the TASK/CONTEXT special rule."""
    if not any(section.is_known for section in sections):
        return _take_all(sections)
    known: dict[str, list[str]] = {}
    unknown: dict[str, list[str]] = {}
    free = [section.text for section in sections if section.header is None and section.text]
    for section in sections:
        if section.mapped and section.mapped.key:
            known.setdefault(section.mapped.key, []).append(section.text)
        elif section.header:
            unknown.setdefault(one_line(section.header.name), []).append(section.text)
    rules = []
    if not any(known.get("task", ())):
        free = free or _asking_end(sections, known, unknown)
        if free:
            known["task"] = free
            rules.append("no task header: what stands under no header is the task")
        elif all(section.header.form == "line_template" for section in sections if section.header):
            return _take_all(sections)  # "Act as a baker and tell me ..." is one sentence with the whole request
    elif free:
        rules += _set_free(free, known)
    return _Parts(_joined(known), _joined(unknown), rules)


def _set_free(free: list[str], known: dict[str, list[str]]) -> list[str]:
    rules = []
    if "system" not in known and (role := leading_role(free[0])):
        known["system"] = [role]
        free = [*filter(None, [free[0][len(role) :].strip()]), *free[1:]]
        rules.append("who the model is, said under no header before a task, is system")
    if free:
        known["context"] = [*free, *known.get("context", ())]
        rules.append("what stands under no header is context")
    return rules


def _asking_end(sections: list[PromptSection], known: dict[str, list[str]], unknown: dict[str, list[str]]) -> list[str]:
    last = sections[-1]
    if last.header is None or last.mapped is None:
        return []
    ends = (end.end() for end in re.finditer(r"\n|(?<=[.!?])[ \t]+", last.text))
    begin = next((end for end in ends if asks(last.text[end:].partition("\n")[0])), None)
    if begin is None:
        return []
    part = known[last.mapped.key] if last.mapped.key else unknown[one_line(last.header.name)]
    part[-1] = last.text[:begin].rstrip()
    return [last.text[begin:]]


def _take_all(sections: list[PromptSection]) -> _Parts:
    text = "\n".join(section.written for section in sections).strip()
    rule = "no header of a known key: the whole text is the task"
    role = leading_role(text)
    if role and (task := text[len(role) :].strip()):
        return _Parts({"system": role, "task": task}, {}, [rule, "who the model is, said first, is system"])
    return _Parts({"task": text}, {}, [rule]) if text else _Parts({}, {}, [])


def _joined(texts: dict[str, list[str]]) -> dict[str, str]:
    return {key: _BETWEEN.join(filter(None, parts)) for key, parts in texts.items()}


def _require_task(parts: _Parts) -> None:
    if parts.body.get("task"):
        return
    found = [key for key, text in parts.body.items() if text]
    if found:
        raise StageError(
            f"the prompt has {', '.join(found)} but no task, and a task is never invented: "
            "add a line 'Task: ...' or write the task before the first header"
        )
    raise StageError("the prompt is empty: write what is to be done, with or without headers")


def _decisions(sections: list[PromptSection]) -> list[dict[str, Any]]:
    """One record a header in order of appearance: its key, the rung, the reason, and how often it occurs."""
    log: dict[str, dict[str, Any]] = {}
    for section in sections:
        if section.header and section.mapped:
            name, mapped = section.header.name, section.mapped
            entry = {"header": name, "form": section.header.form, **mapped._asdict(), "times": 0}
            log.setdefault(name, entry)["times"] += 1
    return list(log.values())
