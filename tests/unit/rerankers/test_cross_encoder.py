from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from ragtune.core.errors import ConfigError, ModelLoadError
from ragtune.core.pool.items import PoolItem
from ragtune.core.request.context import RAGtuneContext
from ragtune.core.tokens import count_tokens
from ragtune.core.types import CostObject
from ragtune.data.corpus import Corpus
from ragtune.embedders.sentence_transformer import SentenceTransformerEmbedder
from ragtune.embedders.tfidf import TfidfEmbedder
from ragtune.rerankers._cached import Pair
from ragtune.rerankers.models.bi_encoder import BiEncoderReranker
from ragtune.rerankers.models.cross_encoder import CrossEncoderReranker, fastest_dtype

Make = Callable[..., CrossEncoderReranker]
MakeContext = Callable[..., RAGtuneContext]
QUERY = "what lowers blood pressure"


@pytest.fixture
def make(tiny_cross_encoder: str) -> Make:
    return lambda **options: CrossEncoderReranker(tiny_cross_encoder, **({"device": "cpu"} | options))


def test_scores_are_sigmoids_of_the_models_logits(
    make: Make, tiny_cross_encoder: str, items: list[PoolItem], make_context: MakeContext
) -> None:
    import torch
    from sentence_transformers import CrossEncoder

    scores = make().rerank(items, make_context(QUERY), "default")
    logits = CrossEncoder(tiny_cross_encoder, max_length=512, device="cpu").predict(
        [(QUERY, item.content) for item in items], activation_fn=torch.nn.Identity()
    )
    expected = [1 / (1 + math.exp(-float(logit))) for logit in logits]
    assert list(scores.values()) == pytest.approx(expected, abs=1e-5)


def test_onnx_runtime_scores_as_pytorch_does_and_exports_a_model_once(
    make: Make, items: list[PoolItem], make_context: MakeContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("onnxruntime", reason="needs the extra onnx")
    before, context = make_context(QUERY), make_context(QUERY)
    expected = make().rerank(items, before, "default")
    # Other numbers and lengths of texts than those that the export has seen, an odd one in the last pass.
    onnx = make(backend="onnx", batch_size=len(items) - 1).rerank(items, context, "default")
    assert onnx == pytest.approx(expected, abs=1e-4)
    assert context.meter.actual.docs == before.meter.actual.docs  # they are kept apart from PyTorch's
    monkeypatch.setattr("torch.onnx.export", None)
    item = replace(items[0], content="a text that nobody has scored")
    assert make(backend="onnx").rerank([item], make_context(QUERY), "default") == pytest.approx(
        make().rerank([item], make_context(QUERY), "default"), abs=1e-4
    )


def test_each_number_type_has_scores_of_its_own_near_those_of_float32(
    make: Make, items: list[PoolItem], make_context: MakeContext
) -> None:
    pytest.importorskip("onnxruntime", reason="needs the extra onnx")
    before = make_context(QUERY)
    expected = make().rerank(items, before, "default")
    for dtype in ("bfloat16", "int8"):
        context = make_context(QUERY)
        scores = make(dtype=dtype).rerank(items, context, "default")
        assert context.meter.actual.docs == before.meter.actual.docs  # none of another type's was in the cache
        assert scores != expected
        assert scores == pytest.approx(expected, abs=0.02)
        assert len(set(scores.values())) > len(items) // 2
        again = make_context(QUERY)
        assert make(dtype=dtype).rerank(items, again, "default") == scores
        assert again.meter.actual.docs == 0


def test_an_int8_score_does_not_depend_on_the_other_documents(
    make: Make, items: list[PoolItem], make_context: MakeContext
) -> None:
    pytest.importorskip("onnxruntime", reason="needs the extra onnx")
    reranker = make(dtype="int8", cache_dir=None)
    together = reranker.rerank(items, make_context(QUERY), "default")
    assert reranker.rerank(items[2:3], make_context(QUERY), "default").items() <= together.items()


def test_auto_is_what_the_processor_has_instructions_for(tmp_path: Path) -> None:
    def dtype(flags: str) -> str:
        file = tmp_path / "cpuinfo"
        file.write_text(f"processor\t: 0\nflags\t\t: {flags}\n\nprocessor\t: 1\nflags\t\t: {flags}\n")
        return fastest_dtype(file)

    assert dtype("fpu avx2 avx512_vnni avx512_bf16") == "bfloat16"
    assert dtype("fpu amx_bf16") == "bfloat16"
    assert dtype("fpu avx2 avx512_vnni") == "fp32"
    assert fastest_dtype(tmp_path / "none") == "fp32"
    assert CrossEncoderReranker("any", dtype="auto", device="cpu").dtype == fastest_dtype()
    assert CrossEncoderReranker("any", dtype="auto", backend="onnx").dtype == "fp32"


@pytest.mark.parametrize("dtype", ["bfloat16", "fp32"])
def test_auto_on_a_gpu_is_what_the_gpu_has_instructions_for(monkeypatch: pytest.MonkeyPatch, dtype: str) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("torch.cuda.is_bf16_supported", lambda including_emulation: dtype == "bfloat16")
    assert {CrossEncoderReranker("any", dtype="auto", device=d).dtype for d in (None, "cuda", "cuda:1")} == {dtype}


def test_an_export_that_scores_otherwise_is_refused(
    make: Make, items: list[PoolItem], make_context: MakeContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("onnxruntime", reason="needs the extra onnx")
    from ragtune.rerankers.models import onnx as _onnx

    real = _onnx.OnnxForward.forward
    monkeypatch.setattr(_onnx.OnnxForward, "forward", lambda self, **f: {"logits": real(self, **f)["logits"] + 0.01})
    with pytest.raises(ModelLoadError, match=r"differ by 0\.002\d: allowed is 0\.0001; use backend=torch"):
        make(backend="onnx").rerank(items, make_context(QUERY), "default")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"backend": "tensorrt"}, "reranker backend='tensorrt': allowed are torch, onnx"),
        ({"backend": "onnx", "device": "cuda"}, "reranker device='cuda': allowed with backend='onnx' is 'cpu'"),
        ({"backend": "onnx", "model": object()}, "allowed for a loaded model is 'torch'"),
        ({"dtype": "float16"}, "reranker dtype='float16': allowed are fp32, bfloat16, int8, auto"),
        ({"dtype": "int8", "backend": "torch"}, "backend='torch': allowed with dtype='int8' is 'onnx'"),
        ({"dtype": "bfloat16", "backend": "onnx"}, "backend='onnx': allowed with dtype='bfloat16' is 'torch'"),
        ({"dtype": "int8", "device": "cuda"}, "device='cuda': allowed with backend='onnx' is 'cpu'"),
        ({"dtype": "int8", "batch_size": 8}, "batch_size=8: allowed with dtype='int8' is 1"),
        ({"dtype": "bfloat16", "model": object()}, "dtype='bfloat16': a loaded model keeps its own"),
    ],
)
def test_what_a_backend_or_a_number_type_cannot_do_is_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        CrossEncoderReranker(**({"model": "any"} | options))  # type: ignore[arg-type]


@pytest.mark.parametrize("change", [{"max_length": 16}, {"query": "another query"}, {"text": "another text"}])
def test_whatever_a_score_depends_on_is_part_of_its_key(
    make: Make, items: list[PoolItem], make_context: MakeContext, change: dict[str, object]
) -> None:
    make().rerank(items[:1], make_context(QUERY), "default")
    context = make_context(str(change.pop("query", QUERY)))
    item = replace(items[0], content=str(change.pop("text", items[0].content)))
    make(**change).rerank([item], context, "default")
    assert context.meter.actual.docs == 1


def test_a_pass_on_a_cpu_holds_passages_of_about_one_length(
    make: Make, make_context: MakeContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = [*["tea " * 400] * 3, "milk " * 310, "milk " * 190, *["cup"] * 40]
    items = [PoolItem(doc_id=str(i), content=f"{i} {text}") for i, text in enumerate(texts)]
    passes: list[int] = []

    def counted(self: CrossEncoderReranker, pairs: Sequence[Pair]) -> list[float]:
        passes.append(len(pairs))
        return [0.5] * len(pairs)

    monkeypatch.setattr(CrossEncoderReranker, "_score", counted)
    for options in ({}, {"batch_size": 40}, {"max_length": 50}, {"dtype": "int8"}):  # of 50 tokens no text is long
        make(cache_dir=None, **options).rerank(items, make_context(QUERY), "default")
    assert passes == [4, 1, 32, 8, 40, 5, 7, 32, 6, *[1] * 45]


def test_the_expected_cost_follows_the_prices(make: Make, items: list[PoolItem], make_context: MakeContext) -> None:
    priced = make(usd_per_1k_tokens=0.5, max_length=20)
    cost = priced.expected_cost(items[:3], make_context(QUERY))
    tokens = sum(min(20, count_tokens(QUERY) + item.token_count) for item in items[:3])
    assert cost == CostObject(tokens=tokens, docs=3, calls=1, usd=tokens / 1000 * 0.5)


def test_a_model_with_several_outputs_is_refused(
    tiny_cross_encoder: str, tmp_path: Path, make_context: MakeContext, items: list[PoolItem]
) -> None:
    from transformers import AutoTokenizer, BertConfig, BertForSequenceClassification

    config = BertConfig.from_pretrained(tiny_cross_encoder, num_labels=3)
    BertForSequenceClassification(config).save_pretrained(tmp_path / "classifier")
    AutoTokenizer.from_pretrained(tiny_cross_encoder).save_pretrained(tmp_path / "classifier")
    with pytest.raises(ModelLoadError, match="3 outputs"):
        CrossEncoderReranker(str(tmp_path / "classifier")).rerank(items, make_context(QUERY), "default")


def test_a_score_is_half_of_one_plus_the_cosine(minilm: str, items: list[PoolItem], make_context: MakeContext) -> None:
    embedder = SentenceTransformerEmbedder(minilm, device="cpu")
    scores = BiEncoderReranker(embedder).rerank(items, make_context(QUERY), "default")
    cosines = embedder.embed([item.content for item in items]) @ embedder.embed([QUERY])[0]
    assert list(scores.values()) == pytest.approx([(1 + float(c)) / 2 for c in cosines], abs=2e-6)
    assert max(scores, key=lambda doc_id: scores[doc_id]).startswith("heart")


def test_the_query_is_charged_once_a_call(corpus: Corpus, items: list[PoolItem], make_context: MakeContext) -> None:
    reranker = BiEncoderReranker(TfidfEmbedder(corpus), max_length=15)
    cost = reranker.expected_cost(items[:3], make_context(QUERY))
    documents = sum(min(15, item.token_count) for item in items[:3])
    assert cost == CostObject(tokens=count_tokens(QUERY) + documents, docs=3, calls=1)
