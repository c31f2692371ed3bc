"""Other people's clients of rerank APIs, unmodified, each in its own dialect, on one server.

Each is imported where it is used: together they take seconds, in each process that collects tests.
"""

import argparse
import asyncio
import importlib
import json
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from npm_clients import install
from patience import HANG_S
from rerank_server import KEY, TEXTS, count_tea, serving

from ragtune.cli.commands import serve
from ragtune.cli.commands.ranker import make_ranker
from ragtune.rerankers.function import FunctionReranker
from ragtune.services.rerank import RerankServer

BEST = [(2, 0.3), (4, 0.2), (0, 0.1)]
WRONG_KEY = "another-key-of-the-tests"
Found = list[tuple[int, float]]


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with serving(RerankServer(FunctionReranker(count_tea), "counter", batch_size=2)) as address:
        yield address


def cohere_v1(url: str) -> Found:
    import cohere

    found = cohere.Client(KEY, base_url=url).rerank(
        model="m", query="tea", documents=[{"text": text} for text in TEXTS], top_n=3, return_documents=True
    )
    assert all(one.document is not None and one.document.text == TEXTS[one.index] for one in found.results)
    return [(one.index, one.relevance_score) for one in found.results]


def cohere_v2(url: str) -> Found:
    import cohere

    found = cohere.ClientV2(KEY, base_url=url).rerank(model="m", query="tea", documents=TEXTS, top_n=3)
    assert found.meta is not None
    assert found.meta.billed_units is not None
    assert found.meta.billed_units.search_units == 0
    return [(one.index, one.relevance_score) for one in found.results]


def voyage(url: str) -> Found:
    import voyageai

    found = voyageai.Client(api_key=KEY, base_url=f"{url}/v1").rerank("tea", TEXTS, model="rerank-2.5", top_k=3)
    assert found.total_tokens > 0
    assert [one.document for one in found.results] == [TEXTS[one.index] for one in found.results]
    return [(one.index, one.relevance_score) for one in found.results]


def langchain_cohere(url: str) -> Found:
    from langchain_cohere import CohereRerank

    return _compressed(CohereRerank(cohere_api_key=KEY, base_url=url, model="m", top_n=3))


def langchain_jina(url: str) -> Found:
    import langchain_community.document_compressors.jina_rerank as jina

    with pytest.MonkeyPatch.context() as patch:  # it has no option
        patch.setattr(jina, "JINA_API_URL", f"{url}/v1/rerank")
        return _compressed(jina.JinaRerank(jina_api_key=KEY, top_n=3))


def _compressed(compressor: Any) -> Found:
    from langchain_core.documents import Document

    documents = [Document(text, metadata={"n": i}) for i, text in enumerate(TEXTS)]
    found = compressor.compress_documents(documents, "tea")
    return [(one.metadata["n"], one.metadata["relevance_score"]) for one in found]


def llama_index(name: str, path: str = "", **options: str) -> Callable[[str], Found]:
    def rank(url: str) -> Found:
        from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode

        module = importlib.import_module(f"llama_index.postprocessor.{name}")
        (made,) = (getattr(module, kind) for kind in module.__all__)
        nodes = [NodeWithScore(node=TextNode(text=text, id_=str(i))) for i, text in enumerate(TEXTS)]
        found = made(base_url=url + path, top_n=3, **options).postprocess_nodes(nodes, QueryBundle("tea"))
        return [(int(one.node_id), one.score) for one in found]

    return rank


def haystack(url: str) -> Found:
    from haystack import Document
    from haystack.utils import Secret
    from haystack_integrations.components.rankers.cohere import CohereRanker

    ranker = CohereRanker(api_key=Secret.from_token(KEY), api_base_url=url, top_k=3)
    found = ranker.run("tea", [Document(content=text, meta={"n": i}) for i, text in enumerate(TEXTS)])
    return [(one.meta["n"], one.score) for one in found["documents"]]


def rerankers(provider: str, path: str) -> Callable[[str], Found]:
    def rank(url: str) -> Found:
        from rerankers import Reranker

        ranker = Reranker("m", model_type="APIRanker", api_provider=provider, api_key=KEY, url=url + path, verbose=0)
        assert ranker is not None
        found = ranker.rank("tea", TEXTS)
        return [(one.document.doc_id, one.score) for one in found.results[:3]]

    return rank


def lite_llm(provider: str, path: str = "") -> Callable[[str], Found]:
    def rank(url: str) -> Found:
        import litellm

        found = litellm.rerank(
            f"{provider}/rerank-v3.5", "tea", TEXTS, top_n=3, return_documents=True, api_base=url + path, api_key=KEY
        )
        cost = litellm.completion_cost(found, call_type="rerank", custom_llm_provider="cohere", model="rerank-v3.5")
        assert cost == 0.0 or provider == "huggingface"  # whose answers have no bill: LiteLLM makes one up
        shown = [one["document"]["text"] for one in found.results if "document" in one]
        assert shown in ([], [TEXTS[one["index"]] for one in found.results])
        return [(one["index"], one["relevance_score"]) for one in found.results]

    return rank


CLIENTS: dict[str, Callable[[str], Found]] = {
    "cohere 5, v1": cohere_v1,
    "cohere 5, v2": cohere_v2,
    "voyageai": voyage,
    "langchain-cohere": langchain_cohere,
    "langchain-community, Jina": langchain_jina,
    "llama-index, Cohere": llama_index("cohere_rerank", api_key=KEY),
    "llama-index, Jina": llama_index("jinaai_rerank", "/v1", api_key=KEY),
    "llama-index, TEI": llama_index("tei_rerank", auth_token=f"Bearer {KEY}"),
    "cohere-haystack": haystack,
    "rerankers, Cohere": rerankers("cohere", "/v1/rerank"),
    "rerankers, Jina": rerankers("jina", "/jina/v1/rerank"),
    "rerankers, Voyage": rerankers("voyage", "/v1/rerank"),
    "rerankers, TEI": rerankers("text-embeddings-inference", "/rerank"),
    "LiteLLM, cohere": lite_llm("cohere"),
    "LiteLLM, jina_ai": lite_llm("jina_ai"),
    "LiteLLM, hosted_vllm": lite_llm("hosted_vllm"),
    "LiteLLM, infinity": lite_llm("infinity", "/infinity"),
    "LiteLLM, huggingface": lite_llm("huggingface"),
    "LiteLLM, voyage": lite_llm("voyage"),
}


@pytest.mark.parametrize("name", CLIENTS)
def test_a_client_gets_the_best_documents_with_their_scores(name: str, url: str) -> None:
    found = CLIENTS[name](url)
    assert [index for index, _ in found] == [index for index, _ in BEST]
    assert [score for _, score in found] == pytest.approx([score for _, score in BEST])


def test_clients_find_the_reason_of_a_failure_where_they_look_for_it(url: str) -> None:
    import cohere
    import litellm
    import voyageai

    with pytest.raises(cohere.UnprocessableEntityError) as wrong:
        cohere.ClientV2(KEY, base_url=url).rerank(model="m", query="tea", documents=["tea"], max_tokens_per_doc=0)
    assert "/max_tokens_per_doc" in wrong.value.body["message"]
    with pytest.raises(cohere.UnauthorizedError) as refused:
        cohere.Client(WRONG_KEY, base_url=url).rerank(model="m", query="tea", documents=["tea"])
    assert "API key" in refused.value.body["message"]
    with pytest.raises(RuntimeError, match="API key"):
        llama_index("jinaai_rerank", "/v1", api_key=WRONG_KEY)(url)
    with pytest.raises(voyageai.error.AuthenticationError, match="API key"):
        voyageai.Client(api_key=WRONG_KEY, base_url=f"{url}/v1").rerank("tea", TEXTS, model="m")
    with pytest.raises(voyageai.error.InvalidRequestError, match="/top_k"):
        voyageai.Client(api_key=KEY, base_url=f"{url}/v1").rerank("tea", TEXTS, model="m", top_k=-1)
    with pytest.raises(litellm.exceptions.APIConnectionError, match="Send the API key"):
        litellm.rerank("hosted_vllm/m", "tea", TEXTS, api_base=url, api_key=WRONG_KEY)


def test_a_request_with_a_budget_goes_through_a_client_that_does_not_know_it(url: str) -> None:
    import cohere

    options: Any = {"additional_body_parameters": {"budget": {"docs": 2}}}
    found = cohere.ClientV2(KEY, base_url=url).rerank(model="m", query="tea", documents=TEXTS, request_options=options)
    assert sum(not one.estimated for one in found.results) == 2  # type: ignore[attr-defined]
    assert found.ragtune["spent"]["docs"] == 2  # type: ignore[attr-defined]


def test_vercels_ai_sdk_ranks(url: str, tmp_path: Path) -> None:
    folder = install("rerank_clients", tmp_path)
    command = [shutil.which("node") or "node", "rerank.mjs", f"{url}/v2", KEY, "tea", json.dumps(TEXTS)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=HANG_S)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [[index, pytest.approx(score), TEXTS[index]] for index, score in BEST]


PAGE = (Path(__file__).parents[3] / "docs" / "howto" / "rerank-clients.md").read_text(encoding="utf-8")
SERVERS = {
    "RAGtune in front of TEI": "tei",
    "RAGtune in front of vLLM": "vllm",
    "RAGtune in front of Cohere": "cohere",
    "Open WebUI": None,
    "An MCP memory server": None,
}


@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl on this machine")
@pytest.mark.parametrize("title", SERVERS)
def test_the_pages_server_answers_the_pages_requests(
    title: str, llm_server: Any, tiny_cross_encoder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    shell = "\n".join(re.findall(r"```sh\n(.*?)```", section(title), flags=re.DOTALL))
    (command,) = re.findall(r"^ragtune serve (.*?[^\\])$", shell, flags=re.MULTILINE | re.DOTALL)
    parser = argparse.ArgumentParser()
    serve.add_arguments(parser)
    arguments = parser.parse_args(shlex.split(command.replace("\\\n", " ")))
    dialect = SERVERS[title]
    if dialect is None:
        arguments.model = tiny_cross_encoder
    else:
        assert arguments.upstream_dialect == dialect
        arguments.model, arguments.upstream_model = llm_server.rerank_url(dialect), "test"
        monkeypatch.setenv("RERANK_API_KEY", "a-key")
    asked = re.findall(r"^curl (?:'[^']*'|[^'\n])*", shell, flags=re.MULTILINE)
    assert asked
    with make_ranker(arguments) as ranker, serving(ranker, key=None) as address:
        for line in asked:
            words = shlex.split(line.replace("http://localhost:8080", address))[1:]
            done = subprocess.run(["curl", "-sS", "--fail", *words], capture_output=True, check=True, timeout=HANG_S)
            answer = json.loads(done.stdout)
            rows = answer if isinstance(answer, list) else answer.get("results") or answer.get("data")
            assert "model_id" in answer or len(rows) == 2
            assert dialect is None or any(not row["estimated"] for row in rows)
    assert dialect is None or llm_server.requests


def test_the_pages_configuration_of_litellm_routes_to_the_server(url: str) -> None:
    import litellm

    (text,) = re.findall(r"```yaml\n(.*?)```", section("LiteLLM"), flags=re.DOTALL)
    models = yaml.safe_load(text.replace("http://localhost:8080", url).replace("api_key: any", f"api_key: {KEY}"))
    found = asyncio.run(litellm.Router(**models).arerank("reranker", query="tea", documents=TEXTS, top_n=3))
    assert [one["index"] for one in found.results] == [index for index, _ in BEST]


def section(title: str) -> str:
    return PAGE.split(f"\n## {title}\n")[1].split("\n## ")[0]
