import json
from pathlib import Path
from typing import Any

from llm_server import Chat
from superprompt_agents import (
    advance,
    agent_client,
    agent_pipeline,
    asked_by,
    chunk_memory,
    numbered,
    own_agents,
    snippet,
)

from ragtune.core.tokens import count_tokens
from ragtune.superprompt import PipelineConfig, SuperPrompt
from ragtune.superprompt.agents.agent import agent_config
from ragtune.superprompt.stages.a3_nli_gate import GateConfig
from ragtune.superprompt.stages.a4_condenser import NO_CONTEXT, CondenserConfig, without_false_citations

CONDENSE = asked_by("A4_Condenser")
PACKAGED = agent_config("A4_Condenser", CondenserConfig)
GATE = agent_config("A3_NLI_Gate", GateConfig)
TEXTS = {
    "a": "Gummy bread was cut while it was hot. Bakers disagree.",
    "b": "Bread must cool for two hours. It is unclear whether steam matters.",
    "c": "Bread tastes best. Who knows why hot bread goes stale?",
    "d": "Bread keeps for three days in a box.",
}
SECTIONS = ["## Facts", "## Constraints", "## Open issues"]


def condensed(client: Any = None, texts: dict[str, str] = TEXTS, stage: str = "a4", **options: Any) -> SuperPrompt:
    pipeline = agent_pipeline(chunk_memory(texts), client, **options)
    return advance(pipeline, SuperPrompt.raw("Please explain why my bread is gummy, cut hot, with quinoa?"), stage)


def writings(server: Any) -> list[Chat]:
    return [chat for request in server.requests if CONDENSE(chat := Chat(request.body))]


def test_the_selection_is_condensed_in_one_call(llm_server: Any) -> None:
    client = agent_client(llm_server)
    sp = condensed(client)
    assert len(writings(llm_server)) == 1
    assert [line for line in sp.s_ctx_md.split("\n") if line.startswith("#")] == SECTIONS
    assert sp.final_selection_ids == sp.views_by_stage["a4"] == sp.views_by_stage["a3"]
    for number, chunk in enumerate(sp.chunks(sp.final_selection_ids), start=1):
        assert f"- {' '.join(chunk.snippet.split()[:8])} [{number}]" in sp.s_ctx_md
    assert (sp.stage, sp.history_of_stages[-1]) == ("a4", "a4")
    assert "## S_CTX" in sp.prompt_ready


def test_the_question_holds_the_prompt_and_each_source_with_its_provenance(llm_server: Any) -> None:
    sp = condensed(agent_client(llm_server))
    chat = writings(llm_server)[0]
    assert "with quinoa?" in chat.fenced["prompt"]
    items = numbered(chat, "source")
    assert [snippet(item) for item in items.values()] == [c.snippet for c in sp.chunks(sp.final_selection_ids)]
    assert all(item.startswith("ID: ") and "SOURCE: memory\nSPAN: " in item for item in items.values())
    assert "Do not invent" in chat.text


def scored(scores: dict[str, float]) -> Any:
    def answer(chat: Chat) -> str:
        found = {
            str(n): scores[snippet(item)] for n, item in numbered(chat, "source").items() if snippet(item) in scores
        }
        facts = "\n".join(f"- {snippet(item)} [{n}]" for n, item in numbered(chat, "source").items())
        return json.dumps({"s_ctx_md": f"## Facts\n{facts}", "relevance": found})

    return answer


def test_too_many_are_cut_to_the_most_relevant_and_the_text_rests_on_those_alone(llm_server: Any) -> None:
    client = agent_client(llm_server)
    llm_server.answer(scored({TEXTS["d"]: 1.0, TEXTS["b"]: 0.9, TEXTS["a"]: 0.1}), CONDENSE)
    limits = PipelineConfig.load(n3_final_selection_max=2)
    before = condensed(client, stage="a3", config=limits).final_selection_ids
    llm_server.requests.clear()
    sp = condensed(client, config=limits)
    assert sp.final_selection_ids == [name for name in before if name in ("b#0", "d#0")]
    assert len(writings(llm_server)) == 2
    assert sp.s_ctx_md.count("[") == 2
    for number, chunk in enumerate(sp.chunks(sp.final_selection_ids), start=1):
        assert f"- {chunk.snippet} [{number}]" in sp.s_ctx_md
    log = sp.extras["a4_decisions"]
    assert sorted(log["trimmed"]) == ["a#0", "c#0"]
    assert log["scores"]["d#0"] == 1.0
    assert "c#0" not in log["scores"]
    assert sp.extras["costs"][-1]["charged"]["calls"] == 2


def test_the_token_budget_takes_what_still_fits(llm_server: Any, tmp_path: Path) -> None:
    client = agent_client(llm_server)
    sizes = {name: count_tokens(text) for name, text in TEXTS.items()}
    agents = own_agents(tmp_path, PACKAGED, max_attachment_tokens=sizes["b"] + sizes["d"])
    llm_server.answer(scored({TEXTS["b"]: 1.0, TEXTS["a"]: 0.9, TEXTS["d"]: 0.8}), CONDENSE)
    sp = condensed(client, agents=agents)
    assert sorted(sp.final_selection_ids) == ["b#0", "d#0"]
    nothing = condensed(client, agents=own_agents(tmp_path, PACKAGED, max_attachment_tokens=1))
    assert (nothing.final_selection_ids, nothing.s_ctx_md) == ([], NO_CONTEXT)


def test_without_a_language_model_the_sources_are_quoted_in_the_sections(tmp_path: Path) -> None:
    no_floor = GATE.floor.model_dump() | {"relative_coverage": 0.0}
    sp = condensed(agents=own_agents(tmp_path, GATE, floor=no_floor))
    numbers = {name: n for n, name in enumerate(sp.final_selection_ids, start=1)}
    facts, constraints, issues = sp.s_ctx_md.split("\n\n")
    assert f"- Gummy bread was cut while it was hot. [{numbers['a#0']}]" in facts
    assert f"- Bread must cool for two hours. [{numbers['b#0']}]" in constraints
    assert f"- Who knows why hot bread goes stale? [{numbers['c#0']}]" in issues
    assert "Bakers disagree" not in sp.s_ctx_md, "it shares no term with the prompt"
    assert "steam" not in sp.s_ctx_md
    assert sp.extras["llm"]["A4_Condenser"] == {"used": False, "reason": "llm_off"}


def test_only_whole_sentences_items_and_rows_are_quoted() -> None:
    texts = {
        "heading": "# Dense bread\n\nDense bread needs a longer proof.\n\nDense bread\n===\n",
        "lead": "Why bread is dense:\n\n1. the proof of dense bread was short\n2. **cold** dough\n",
        "table": "| dense bread | cause |\n|---|---|\n| dense bread | weak starter |\n| dense bread | cut off",
        "figures": "| dense bread rises | 50 | 97% | 8 | yes |\n",
        "code": "```sh\nbake --dense bread\n```\nA dense bread is `bake --soft`d.\n",
    }
    sp = advance(agent_pipeline(chunk_memory(texts)), SuperPrompt.raw("why is my bread dense"), "a4")
    quoted = {line.rpartition(" [")[0] for line in sp.s_ctx_md.split("\n") if line.endswith("]")}
    assert quoted == {
        "- Dense bread needs a longer proof.",
        "- the proof of dense bread was short",
        "- dense bread: weak starter",
        "- A dense bread is `bake --soft`d.",
    }


def test_citations_of_no_source_are_rejected(llm_server: Any) -> None:
    client = agent_client(llm_server)
    said = "## Facts\n- true [1]\n- false [9]\n- both [1, 9]\n- year [2024] and [2]\n- `a[9]`\n## Constraints\n"
    disguised = ["- none of ours [0]", "- hot[9]", "- odd \u30109\u3011", "- named [source 9]", "- two [8 and 9]"]
    said += "\n".join(disguised)
    llm_server.answer(json.dumps({"s_ctx_md": said, "relevance": {}}), CONDENSE)
    sp = condensed(client)
    assert sp.s_ctx_md.startswith(
        "## Facts\n- true [1]\n- both [1]\n- year  and [2]\n- `a[9]`\n\n## Constraints\n- none\n"
    )
    assert sp.extras["a4_decisions"]["rejected"] == ["- false [9]", *disguised]


def test_links_and_footnotes_are_no_citations_and_no_line_gives_a_number_another_meaning() -> None:
    kept = ["- a link [9](https://a.example/x)", "- a footnote [^9]", "[^9]: its text", "- a link [9](u) and [1]"]
    gone = ["- a link [1](u), but [9]", "- a footnote[^1] [9]", "[1]: https://a.example", "- \\[9\\]"]
    gone += ["- [attachment 9]"]
    assert without_false_citations("\n".join([*kept, *gone]), 2) == ("\n".join(kept), gone)
