"""The number types in which a cross-encoder computes, and which of them suits the processor."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

from ragtune.core.arguments import check_choice
from ragtune.core.errors import ConfigError

BACKENDS = ("torch", "onnx")
DTYPES = ("fp32", "bfloat16", "int8", "auto")
"""``auto`` is ``bfloat16`` on a processor or GPU that multiplies such numbers, else ``fp32``."""

_BACKEND_OF = {"bfloat16": "torch", "int8": "onnx"}
_MULTIPLIES_BFLOAT16 = {"avx512_bf16", "amx_bf16"}
"""Processor features without which bfloat16 is slower than float32."""


def chosen(dtype: str, backend: str | None, device: str | None) -> tuple[str, str]:
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
    import torch

    if (device or "cuda").startswith("cuda") and torch.cuda.is_available():
        return "bfloat16" if torch.cuda.is_bf16_supported(including_emulation=False) else "fp32"
    return fastest_dtype(processor_features()) if device in (None, "cpu") else "fp32"


def fastest_dtype(features: Collection[str]) -> str:
    """The fastest type whose order of documents is practically that of float32.

    Args:
        features: of the processor, as Linux names them, such as ``avx512_bf16``.

    Examples:
        >>> from ragtune.rerankers.models.precision import fastest_dtype
        >>> fastest_dtype({"avx2", "avx512_bf16"}), fastest_dtype({"avx2", "avx512_vnni"})
        ('bfloat16', 'fp32')
    """
    return "bfloat16" if _MULTIPLIES_BFLOAT16.intersection(features) else "fp32"


def processor_features(cpuinfo: Path = Path("/proc/cpuinfo")) -> frozenset[str]:
    """The features of this machine's processor, as Linux names them; none on a system that does not list them."""
    try:
        lines = cpuinfo.read_text(encoding="utf-8").splitlines()
    except OSError:
        return frozenset()
    return frozenset(next((line.partition(":")[2] for line in lines if line.startswith("flags")), "").split())


def convert(model: Any, dtype: str) -> Any:
    """Have a ``CrossEncoder`` compute in ``fp32`` or ``bfloat16``; it is changed in place."""
    import torch

    if dtype != "bfloat16":
        return model.float()
    model.bfloat16()
    outputs = [layer for layer in model.modules() if isinstance(layer, torch.nn.Linear) and layer.out_features == 1]
    for last in outputs[-1:]:  # stays float32, as bfloat16 has the same number for logits that differ by a hundredth
        last.float().register_forward_pre_hook(lambda _, inputs: tuple(each.float() for each in inputs))
    return model
