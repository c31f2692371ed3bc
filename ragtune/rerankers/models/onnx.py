"""A cross-encoder's forward passes by ONNX Runtime, on the CPU."""

from __future__ import annotations

import logging
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sentence_transformers import CrossEncoder

from ragtune.core.errors import MissingExtraError
from ragtune.data.caches.diskcache import DiskCache

try:
    import onnx
    import onnxruntime as ort
except ImportError as error:
    raise MissingExtraError("reranker.backend=onnx", "onnx") from error

_FILE = "model.onnx"
_SAMPLE = [("a query", "a passage that is somewhat longer than it"), ("another query, with more words", "a passage")]
_FURTHEST = 1e-4
"""The largest allowed difference to PyTorch's score; the order of float32 additions changes a logit by up to 1e-5."""


class OnnxForward(torch.nn.Module):
    """Replaces the transformer of a ``CrossEncoder``, which keeps its tokenizer, batches and activation."""

    def __init__(self, graph: bytes, config: Any) -> None:
        super().__init__()
        self.config = config
        self.device = torch.device("cpu")
        options = ort.SessionOptions()
        options.intra_op_num_threads = torch.get_num_threads()
        self._session = ort.InferenceSession(graph, options, providers=["CPUExecutionProvider"])
        self._inputs = [each.name for each in self._session.get_inputs()]

    def forward(self, **features: Any) -> Mapping[str, torch.Tensor]:
        (logits,) = self._session.run(None, {name: features[name].numpy() for name in self._inputs})
        return {"logits": torch.from_numpy(logits)}


def run_by_onnx(model: CrossEncoder, identity: str, cache: DiskCache, *, quantized: bool = False) -> CrossEncoder:
    """Run a model by ONNX Runtime from a graph in the cache; it is changed in place and loses its PyTorch weights."""
    transformer: Any = model[0]
    if len(model) > 1:
        raise ValueError("ONNX Runtime cannot be given its layers behind the Transformer: use backend=torch")
    made_by = [f"{name}-{version(name)}" for name in ("torch", "transformers", "onnxruntime")]
    graph: bytes = cache.fetch(
        " ".join([identity, *made_by, *["int8"] * quantized]),
        lambda: _quantized(_exported(model)) if quantized else _exported(model),
        lambda graph, folder: (folder / _FILE).write_bytes(graph),
        lambda folder: (folder / _FILE).read_bytes(),
    )
    transformer.model = OnnxForward(graph, transformer.model.config)
    return model


class _Logits(torch.nn.Module):
    def __init__(self, model: Any, names: list[str]) -> None:
        super().__init__()
        self._model, self._names = model, names

    def forward(self, *features: torch.Tensor) -> Any:
        return self._model(**dict(zip(self._names, features, strict=True))).logits


def _exported(model: CrossEncoder) -> bytes:
    from onnxruntime.transformers.optimizer import optimize_model

    transformer: Any = model[0]
    # The only form of attention that ONNX Runtime recognises as such and fuses; what it computes is the same.
    transformer.model.set_attn_implementation("eager")
    config, features = transformer.model.config, _features(model, _SAMPLE)
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings(), torch.inference_mode():
        warnings.simplefilter("ignore")  # about values that are traced as constants: the shapes of the sample
        file = Path(folder) / _FILE
        torch.onnx.export(
            _Logits(transformer.model, list(features)).eval(),
            tuple(features.values()),
            file,
            input_names=list(features),
            output_names=["logits"],
            dynamic_axes={name: {0: "pairs", 1: "tokens"} for name in features},
            opset_version=17,
            dynamo=False,  # whose graphs are not recognised, and take ten times as long to make
        )
        heads, width = (getattr(config, name, 0) for name in ("num_attention_heads", "hidden_size"))
        optimized = optimize_model(str(file), model_type="bert", num_heads=heads, hidden_size=width, opt_level=0)
        optimized.save_model_to_file(str(file))
        graph = file.read_bytes()
        # Pairs of other numbers and lengths than were traced.
        features = _features(model, [*_SAMPLE, ("a third query", "which has a passage of many more words " * 8)])
        scores = (torch.sigmoid(run(**features)["logits"]) for run in (transformer.model, OnnxForward(graph, config)))
        furthest = float(np.ptp([each.numpy() for each in scores], axis=0).max())
    if furthest > _FURTHEST:
        raise ValueError(f"as ONNX its scores differ by {furthest:.2g}: allowed is {_FURTHEST}; use backend=torch")
    return graph


def _quantized(graph: bytes) -> bytes:
    """The graph with weights of 8 bits, each column by its own scale; 7 bits are used, as sums of more overflow."""
    from onnxruntime.quantization import QuantType, quantize_dynamic

    with tempfile.TemporaryDirectory() as folder, _silent():
        file = Path(folder) / _FILE
        quantize_dynamic(
            onnx.load_from_string(graph),
            file,
            per_channel=True,
            reduce_range=True,
            weight_type=QuantType.QInt8,
            extra_options={"DefaultTensorType": onnx.TensorProto.FLOAT},  # of fused nodes, whose types it cannot infer
        )
        return file.read_bytes()


@contextmanager
def _silent() -> Iterator[None]:
    """Keep its advice about preprocessing, which fused graphs do without, off standard error; it logs to the root."""
    root, is_ours = logging.getLogger(), lambda record: "onnxruntime" not in record.pathname
    root.addFilter(is_ours)
    try:
        yield
    finally:
        root.removeFilter(is_ours)


def _features(model: CrossEncoder, pairs: list[tuple[str, str]]) -> Any:
    return model.tokenizer(*map(list, zip(*pairs, strict=True)), padding=True, return_tensors="pt")
