"""Natural prompts over documents that nobody prepared: the pipeline of a fresh install, without any model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from ragtune.core.interfaces import BaseEmbedder, BaseReranker
from ragtune.superprompt import SuperPrompt
from ragtune.superprompt.memory.documents import DocumentMemory
from ragtune.superprompt.options import load_options
from ragtune.superprompt.parts import make_pipeline
from ragtune.superprompt.pipeline import build_pipeline
from ragtune.superprompt.reading.details import language_in
from ragtune.superprompt.reading.formats import without_format
from ragtune.superprompt.stages.reranker import LatentRerankStage, TopRerankStage

DOCUMENTS = {
    "brewing.rst": (
        "Brewing\n=======\n\n.. contents::\n\nGreen tea\n---------\n\n"
        "Green tea is steeped at 75 degrees for two minutes.\n\n"
        ".. code-block:: python\n\n   steep(green_tea, degrees=75)\n\nSee :ref:`green tea`.\n\n"
        "Black tea\n---------\n\nBlack tea is steeped at 95 degrees for four minutes.\n"
    ),
    "storage.md": "# Storage\n\nTea is kept dry and dark in a tin.\n\n"
    "## See also\n\n- [Green tea](brewing)\n- [Tea](tea)\n",
    "machines.md": "# Machines\n\nA grinder must be cleaned weekly. The filter of the machine lasts a year.\n",
}


def done(prompt: str, documents: dict[str, str] = DOCUMENTS, kind: str = "auto") -> SuperPrompt:
    options = load_options(None, {"reranker": {"kind": kind, "model": "no-such-model"}})
    pipeline = make_pipeline(options, DocumentMemory.from_texts(documents, options.chunking))
    return pipeline.run_all(SuperPrompt.raw(prompt))


def notices(sp: SuperPrompt) -> str:
    return "\n".join(notice["message"] for notice in sp.extras.get("notices", []))


def test_chunks_of_restructured_text_know_the_headings_that_they_stand_under() -> None:
    text = f"Book\n====\n\n{'One word. ' * 90}\n\nPart\n~~~~\n\n{'Two words. ' * 90}\n"
    chunks = DocumentMemory.from_texts({"a.rst": text}, load_options(None).chunking).chunks
    assert [chunks[0].metadata["headings"], chunks[-1].metadata["headings"]] == [["Book"], ["Book", "Part"]]


@pytest.mark.parametrize("kind", ["auto", "none"])
def test_of_three_files_every_one_that_answers_is_attached(kind: str) -> None:
    texts = {
        name: f"# {name} tea\n\n{name} tea is steeped at {n} degrees.\n" for n, name in ((75, "Green"), (95, "Black"))
    }
    sp = done("How hot is tea steeped?", texts | {"c": "# Coffee\n\nA grinder is cleaned weekly.\n"}, kind)
    assert sorted(sp.final_selection_ids) == ["Black#0", "Green#0"]


def test_a_candidate_that_adds_nothing_is_not_attached() -> None:
    said = "Green tea is steeped at 75 degrees for two minutes"
    copies = {f"copy{n}.md": f"# Green tea\n\n{said}, as always, number {n}.\n" for n in range(9)}
    assert len(done("How long is green tea steeped?", copies | DOCUMENTS).final_selection_ids) < len(copies)


def test_facts_state_something_and_are_no_links_headings_or_code() -> None:
    sp = done("How long is green tea steeped, and how is tea kept?")
    facts = [line for line in sp.s_ctx_md.split("\n") if line.endswith("]")]
    assert any("Green tea is steeped at 75 degrees for two minutes." in fact for fact in facts)
    assert not any(mark in "\n".join(facts) for mark in ("](", "code-block", "steep(", ":ref:", "contents"))
    quoted = '# Tea\n\n<a id="tea"></a>\n\n> ```js\n> // Green tea must be steeped at 75 degrees.\n> ```\n'
    assert "- " not in done("How is green tea steeped?", {"tea.md": quoted}).s_ctx_md.replace("- none", "")


def test_what_the_documents_do_not_answer_gets_the_notice() -> None:
    assert "the documents say little" in notices(done("Which symptoms has a vitamin deficiency after a year?"))
    assert "the documents say little" not in notices(done("How long is green tea steeped?"))


def test_a_question_in_another_language_than_the_documents_is_told() -> None:
    assert "in German, the documents are in English" in notices(done("Wie lange muss der Tee in der Kanne sein?"))
    assert "the documents are in" not in notices(done("How long must the tea be in the pot?"))


def test_who_the_model_is_leaves_the_task() -> None:
    sp = done("You are a senior tea taster. How long is green tea steeped?")
    assert (sp.body["system"], sp.body["task"]) == ("You are a senior tea taster.", "How long is green tea steeped?")


def test_what_is_explained_to_whom_stays_the_subject() -> None:
    for task in ("Explain to a child how green tea is steeped.", "Explain how green tea is steeped to a child."):
        sp = done(task)
        assert sp.body["audience"] == "a child"
        assert "green" in sp.extras["retrieval"]["term_weights"]


@pytest.mark.parametrize("prompt", ["How long is green tea steeped?", "Which guitar has a maple neck?"])
def test_an_embedder_and_a_reranker_that_like_all_candidates_get_no_more_attached(prompt: str) -> None:
    teas = {
        f"tea{n}.md": f"# Oolong {n}\n\nOolong number {n} comes from garden {n}, a tea garden.\n" for n in range(30)
    }
    options = load_options(None, {"reranker": {"model": "no-such-model"}})
    chunks = DocumentMemory.from_texts(DOCUMENTS | teas, options.chunking).chunks
    memory = DocumentMemory(chunks, ConstantEmbedder())
    pipelines = [make_pipeline(options, memory)]
    terms = LatentRerankStage(memory.index, options.request_words, memory.sections)
    pipelines.append(build_pipeline(options, memory=memory, rerank_stage=TopRerankStage(ConstantReranker(), terms)))
    for pipeline in pipelines:
        sp = pipeline.run_all(SuperPrompt.raw(prompt))
        assert len(sp.views_by_stage["reranked"]) > 30
        assert len(sp.final_selection_ids) <= 5
        assert ("the documents say little" in notices(sp)) == ("guitar" in prompt)


class ConstantEmbedder(BaseEmbedder):
    name = "constant"

    def embed(self, texts: Sequence[str]) -> Any:
        return np.full((len(texts), 4), 0.5, dtype=np.float32)


class ConstantReranker(BaseReranker):
    def rerank(self, documents: Sequence[Any], context: Any, strategy: str) -> dict[str, float]:
        return {document.doc_id: 0.9 for document in documents}


REQUESTS: list[tuple[str, dict[str, Any]]] = [
    ("\nOutput: JSON with keys name, command.", {"name": "JSON", "starts": '{\n  "name": "...",\n  "command"'}),
    ("As a JSON array of objects with keys a, b.", {"name": "JSON", "starts": '[\n  {\n    "a": "...",\n    "b"'}),
    ("Answer as a list of JSON objects.", {"name": "JSON", "starts": "["}),
    ("Only SQL, no explanations.", {"name": "SQL", "rule": "Write no explanation before or after the code"}),
    ("Reply with CSV separated by semicolons, columns step;code.", {"name": "CSV", "shape": "step;code\nvalue;value"}),
    ("Answer with CSV of pipes.", {"name": "CSV", "shape": "column,column\nvalue,value"}),
    ("Use a table with columns tea, time.", {"name": "table", "starts": "| tea | time |"}),
    ("Teas in a three-column table.", {"name": "table"}),
    ("Bitte auf Deutsch, drei Stichpunkte.", {"name": "bullet list", "rule": "Write exactly 3 items."}),
    ("Answer as three bullet points.", {"name": "bullet list", "shape": "- item\n- item\n- item"}),
    (
        "Wie lange zieht der Tee, und warum ist das so? In drei Stichpunkten. Zielgruppe sind Schüler.",
        {"name": "bullet list", "rule": "Answer in German.", "audience": "Schüler"},
    ),
    ("Answer in at most 80 words.", {"name": "Markdown", "rule": "Length: at most 80 words."}),
    ("Write it as an email.", {"name": "e-mail", "starts": "Subject:"}),
    ("Write for managers, no code.", {"name": "Markdown", "rule": "Show no code.", "audience": "managers"}),
    ("Write a haiku about SQL.", {"name": "Markdown", "shape": ""}),
    ("Return JSON only. Keys: tea, time.", {"name": "JSON", "shape": '{\n  "tea": "...",\n  "time": "..."\n}'}),
    (
        "Return JSON with the following keys: x (text), y (number).",
        {"name": "JSON", "starts": '{\n  "x": "...",\n  "y"'},
    ),
    ("Make a CSV (delimiter ;) with columns a, b.", {"name": "CSV", "shape": "a;b\nvalue;value"}),
    ("The result should be CSV.", {"name": "CSV", "starts": "column,"}),
    ("Answer in at most three bullets.", {"name": "bullet list", "rule": "Write at most 3 items."}),
    ("Nenne mir drei Stichpunkte, Zielgruppe Schüler.", {"name": "bullet list", "audience": "Schüler"}),
    ("Answer for an expert audience: what is tea?", {"name": "Markdown"}),
    ("Here is my file:\n\nformat: csv\naudience: ops\n\nWhat is missing?", {"name": "Markdown"}),
]
PROMPTS: list[tuple[str, dict[str, Any]]] = [
    ("No more than 4 bullets: how is tea kept?", {"name": "bullet list", "rule": "Write at most 4 items."}),
    (
        "I need a semicolon-separated CSV of all teas: tea;how to keep it",
        {"name": "CSV", "shape": "tea;how to keep it\nvalue;value"},
    ),
    ("Draft a short mail to the team about tea.", {"name": "e-mail"}),
    ("Gib mir eine Tabelle mit den Spalten Tee und Zeit aller Sorten.", {"name": "table", "starts": "| Tee | Zeit |"}),
    ("Provide a TypeScript interface for a tea.", {"name": "TypeScript code", "starts": "```typescript"}),
    ("Write a script to import a CSV file of teas.", {"name": "Markdown"}),
    ("Write a class mapped to a table with columns id, tea.", {"name": "Markdown"}),
    ("Create a table in SQL for teas.", {"name": "SQL"}),
    ("Übersetze ins Englische: Der Tee ist nicht heiß.", {"name": "Markdown", "rule": "Answer in English."}),
    ("Write for managers: how is tea kept?", {"name": "Markdown", "audience": "managers", "term": "kept"}),
    (
        "Target audience: students. Explain how tea is kept.",
        {"name": "Markdown", "audience": "students.", "term": "tea"},
    ),
    ("Explain what happens to a filter when a year ends.", {"name": "Markdown", "term": "filter"}),
    ("Erkläre Schritt für Schritt die Regeln für den Filter.", {"name": "Markdown", "term": "filter"}),
    ("Explain like I'm five how tea is kept.", {"name": "Markdown", "audience": "a 5-year-old", "term": "kept"}),
    ("ELI5: how is tea kept?", {"name": "Markdown", "audience": "a 5-year-old", "term": "kept"}),
    ("Explain as if I were a beginner how tea is kept.", {"name": "Markdown", "audience": "a beginner"}),
    ("Why do I look like I'm 40 years old?", {"name": "Markdown"}),
    ("Explain why I feel like I'm 5 minutes late.", {"name": "Markdown"}),
    ("Walk me through keeping tea, step by step.", {"name": "numbered list", "term": "keep"}),
    ("Write a step-by-step guide to keeping tea.", {"name": "numbered list", "term": "keep"}),
    ("Wie lagert man Tee, Schritt für Schritt?", {"name": "numbered list", "rule": "Answer in German."}),
    ("How does step by step debugging work?", {"name": "Markdown", "term": "debug"}),
    ("Explain tea to a 10 year old as a table.", {"name": "table", "audience": "a 10 year old"}),
]


@pytest.mark.parametrize(("prompt", "wanted"), [*((f"Which teas are there? {r}", w) for r, w in REQUESTS), *PROMPTS])
def test_a_format_is_read_by_what_it_is(prompt: str, wanted: dict[str, Any]) -> None:
    sp = done(prompt)
    made = sp.extras["format_enforcer"]
    assert sp.extras["a5_decisions"]["recipe"] == wanted["name"]
    assert made["example_shape"] == wanted.get("shape", made["example_shape"])
    assert made["example_shape"].startswith(wanted.get("starts", ""))
    assert wanted.get("rule", "") in "\n".join(made["hard_rules"])
    assert sp.body["audience"] == wanted.get("audience", "general")
    assert wanted.get("term", "") in " ".join(["", *sp.extras["retrieval"]["term_weights"]])


@pytest.mark.parametrize("request_", ["Introduce German teas.", "Interpret French law.", "Include Italian teas."])
def test_a_language_that_is_the_subject_is_not_that_of_the_answer(request_: str) -> None:
    assert language_in(request_) is None


def test_a_word_of_many_letters_is_read() -> None:
    word = "A" * 300_000  # looking for its end from each letter would take minutes
    assert without_format(word) == word
