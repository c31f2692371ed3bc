"""Cross-encoder reranking by sentence-transformers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ragtune.core.arguments import check_choice, check_flag
from ragtune.core.component import declare_files
from ragtune.core.errors import ConfigError
from ragtune.core.request.context import RAGtuneContext
from ragtune.core.units import FLOPS
from ragtune.data.caches.diskcache import AUTO, DiskCache
from ragtune.data.models import load_model, model_identity, require_models
from ragtune.rerankers._cached import Pair
from ragtune.rerankers.models.architecture import Architecture
from ragtune.rerankers.models.pairwise import PairwiseReranker
from ragtune.rerankers.scale import CALIBRATIONS, ScoreScale

if TYPE_CHECKING:
    from sentence_transformers import CrossEncoder

_DECIMALS = 5

_PASS, _CHARS_ON_CPU = 32, 8000
"""Default pairs of a pass, and characters of their passages on a CPU."""

BACKENDS = ("torch", "onnx")
DTYPES = ("fp32", "bfloat16", "int8", "auto")
"""``auto`` is ``bfloat16`` on a processor or GPU that multiplies such numbers, else ``fp32``."""

_BACKEND_OF = {"bfloat16": "torch", "int8": "onnx"}
_MULTIPLIES_BFLOAT16 = {"avx512_bf16", "amx_bf16"}
"""Processor features without which bfloat16 is slower than float32."""

_INT8_PASS = 1  # the scale of a pass's numbers is that of all its pairs, so a score would depend on the others


@declare_files(reads=["model"])
class CrossEncoderReranker(PairwiseReranker):
    """A cross-encoder (Nogueira and Cho 2019): query and document read together, score = sigmoid of the logit.

    ``dtype`` is the type of number that it computes in: ``fp32``, ``bfloat16`` by PyTorch, ``int8`` by ONNX Runtime on
    the CPU (weights per channel, activations per pair), or ``auto``: ``bfloat16`` where the processor has instructions
    for it, else ``fp32``. Scores of different types are cached apart.
    """

    def __init__(
        self,
        model: str | CrossEncoder,
        max_length: int | None = 512,
        batch_size: int | None = None,
        device: str | None = None,
        revision: str | None = None,
        usd_per_1k_tokens: float = 0.0,
        cache_dir: str | Path | None = AUTO,
        preload: bool = True,
        backend: str | None = None,
        architecture: str | Mapping[str, Any] | None = None,
        dtype: str = "fp32",
    ) -> None:
        self.dtype, self.backend = _chosen(dtype, backend, device)
        if self.backend == "onnx" and not isinstance(model, str):
            raise ConfigError("reranker backend='onnx': allowed for a loaded model is 'torch'; give its folder or name")
        if dtype != "fp32" and not isinstance(model, str):
            raise ConfigError(f"reranker dtype={dtype!r}: a loaded model keeps its own; give its folder or name")
        cache_dir = cache_dir if isinstance(model, str) else None
        most = _INT8_PASS if self.dtype == "int8" else _PASS
        size = most if batch_size is None else batch_size
        if self.dtype == "int8" and size != _INT8_PASS:
            raise ConfigError(f"reranker batch_size={size}: allowed with dtype='int8' is 1, lest scores depend on it")
        super().__init__(size, max_length, usd_per_1k_tokens, cache_dir)
        self.preload = check_flag("reranker preload", preload)
        self._fits_passes = batch_size is None
        self.model = model if isinstance(model, str) else type(model).__name__
        self.device = device
        self.revision = revision
        self._given = None if isinstance(model, str) else _with_one_output(model)
        self._loaded: Any = None
        self._reads_size = architecture == "auto"
        self._architecture = None if self._reads_size else Architecture.parse(architecture)
        if self._reads_size or self._architecture:
            self.facts = replace(self.facts, unpriced=self.facts.unpriced - {FLOPS.name})

    @property
    def architecture(self) -> Architecture | None:
        """The model's size; None if it was not given."""
        if self._architecture is None and self._reads_size:
            self._architecture = Architecture.of_model(self._make_ready().config, self.max_length)
        return self._architecture

    def _size(self, context: RAGtuneContext) -> Architecture | None:
        with context.tracker.clock.paused():
            return self.architecture

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_loaded": None}

    def _identity(self) -> str:
        identity = model_identity(self.model, self.revision)
        if identity is None:
            self._make_ready()
            identity = model_identity(self.model, self.revision) or f"{self.model}@{self.revision or 'main'}"
        by = "" if self.backend == "torch" else f" {self.backend}"
        by += "" if self.dtype == "fp32" else f" {self.dtype}"
        return f"cross_encoder sigmoid {identity} max_length={self.max_length}{by}"

    def _make_ready(self) -> Any:
        if self._loaded is None:
            self._loaded = self._given or load_model(self.model, self.revision, self._load)
            if self._fits_passes and str(self._loaded.device) == "cpu":
                self._pass_chars = _CHARS_ON_CPU
        return self._loaded

    def _load(self, model: str, local_files_only: bool) -> Any:
        from sentence_transformers import CrossEncoder

        made = CrossEncoder(
            model,
            max_length=self.max_length,
            device="cpu" if self.backend == "onnx" else self.device,
            revision=self.revision,
            local_files_only=local_files_only,
        )
        loaded = _convert(_with_one_output(made), self.dtype)
        if self.backend == "onnx":
            from ragtune.rerankers.models.onnx import run_by_onnx

            identity = model_identity(model, self.revision)
            cache = DiskCache("onnx", self._folder if identity else None)
            run_by_onnx(loaded, str(identity), cache, quantized=self.dtype == "int8")
        loaded.predict([("a query", "a passage")])  # the first pass is slower than all others
        return loaded

    def _score(self, pairs: Sequence[Pair]) -> list[float]:
        import torch
        import torch.nn.attention

        # On a GPU, cuDNN's attention plans anew for each length of a pass: 247 ms a request against 20 ms on an H200.
        kinds = torch.nn.attention.SDPBackend
        with torch.nn.attention.sdpa_kernel([kinds.FLASH_ATTENTION, kinds.EFFICIENT_ATTENTION, kinds.MATH]):
            logits = self._make_ready().predict(
                [(pair.context.query, pair.item.content) for pair in pairs],
                batch_size=self.batch_size,
                activation_fn=torch.nn.Identity(),
                show_progress_bar=False,
            )
        sigmoid, *_ = CALIBRATIONS[ScoreScale.LOGIT]
        return [sigmoid(round(float(logit), _DECIMALS)) for logit in logits]


def _with_one_output(model: CrossEncoder) -> CrossEncoder:
    if model.num_labels != 1:
        raise ValueError(f"it has {model.num_labels} outputs: allowed is a cross-encoder with one")
    return model


def _chosen(dtype: str, backend: str | None, device: str | None) -> tuple[str, str]:
    """The number type and the backend that these choices mean."""
    check_choice("reranker dtype", dtype, DTYPES)
    if backend is not None:
        check_choice("reranker backend", backend, BACKENDS)
    if dtype == "auto":
        dtype = "fp32" if backend == "onnx" else _fastest_on(device)
    backend = backend or _BACKEND_OF.get(dtype, "torch")
    if backend != _BACKEND_OF.get(dtype, backend):
        raise ConfigError(f"reranker backend={backend!r}: allowed with dtype={dtype!r} is {_BACKEND_OF[dtype]!r}")
    if backend == "onnx" and device not in (None, "cpu"):
        raise ConfigError(f"reranker device={device!r}: allowed with backend='onnx' is 'cpu'")
    return dtype, backend


def _fastest_on(device: str | None) -> str:
    require_models("reranker dtype='auto'")
    import torch

    if (device or "cuda").startswith("cuda") and torch.cuda.is_available():
        return "bfloat16" if torch.cuda.is_bf16_supported(including_emulation=False) else "fp32"
    return fastest_dtype() if device in (None, "cpu") else "fp32"


def fastest_dtype(cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    """The fastest type of this processor whose order of documents is practically that of float32."""
    try:
        lines = cpuinfo.read_text(encoding="utf-8").splitlines()
    except OSError:
        return "fp32"
    flags = next((line.partition(":")[2] for line in lines if line.startswith("flags")), "")
    return "bfloat16" if _MULTIPLIES_BFLOAT16.intersection(flags.split()) else "fp32"


def _convert(model: Any, dtype: str) -> Any:
    """Have a ``CrossEncoder`` compute in ``fp32`` or ``bfloat16``; it is changed in place."""
    import torch

    if dtype != "bfloat16":
        return model.float()
    model.bfloat16()
    outputs = [layer for layer in model.modules() if isinstance(layer, torch.nn.Linear) and layer.out_features == 1]
    for last in outputs[-1:]:  # stays float32, as bfloat16 has the same number for logits that differ by a hundredth
        last.float().register_forward_pre_hook(lambda _, inputs: tuple(each.float() for each in inputs))
    return model
