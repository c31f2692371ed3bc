"""Floating-point operations of a model, in closed form from its size and its input."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ragtune.core.arguments import check_choice
from ragtune.core.errors import ConfigError
from ragtune.core.plain import quoted


class Architecture(BaseModel):
    """The size of a Transformer, and its operations by EER-FLOPs (Peng et al., EMNLP 2025, arXiv 2507.06223).

    Embeddings, normalisation and the output layer are left out. As the authors do, two matrices are counted for the
    feed-forward part: of a gated one, which has three, say 1.5 times its width.
    """

    kind: Literal["encoder", "decoder", "encoder_decoder"] = "encoder"
    layers: int = Field(ge=1)
    hidden: int = Field(ge=1)
    feed_forward: int = Field(ge=1)
    heads_per_key: int = Field(default=1, ge=1)
    output_tokens: int = Field(default=0, ge=0)
    extra_tokens: int = Field(default=0, ge=0)
    max_length: int | None = Field(default=512, ge=1)

    model_config = ConfigDict(frozen=True, extra="forbid")

    def flops(self, tokens: int) -> float:
        n, m = tokens + self.extra_tokens, self.output_tokens
        n = n if self.max_length is None else min(n, self.max_length)
        layers, d, f = self.layers, self.hidden, self.feed_forward
        if self.kind == "decoder":
            r = self.heads_per_key
            weights = 2 * d * layers * ((1 + 1 / r) * d + f)
            read = 2 * weights * n + 4 * layers * n**2 / r * d
            return float(round(read + 2 * weights * m + 2 * layers / r * d * (2 * m * n + m * (m - 1))))
        read = 4 * d * layers * (2 * d + f) * n + 4 * layers * n**2 * d
        if self.kind == "encoder":
            return float(read)
        written = 4 * d * layers * (3 * d + f) * m + 2 * layers * d * (2 * m * n + m * (m - 1))
        return float(read + 4 * layers * n * d * d + written)

    @classmethod
    def parse(cls, given: Any) -> Architecture | None:
        if given is None or isinstance(given, cls):
            return given
        if isinstance(given, str):
            return ARCHITECTURES[check_choice("architecture", given, ARCHITECTURES)]
        if not isinstance(given, Mapping):
            allowed = f"{', '.join(ARCHITECTURES)}, or {', '.join(cls.model_fields)} by name"
            raise ConfigError(f"architecture={quoted(given)}: allowed is {allowed}")
        try:
            return cls.model_validate(dict(given))
        except ValidationError as error:
            first = error.errors()[0]
            name = ".".join(map(str, first["loc"]))
            raise ConfigError(f"architecture.{name}={quoted(first['input'])}: {first['msg']}") from None

    @classmethod
    def of_model(cls, config: Any, max_length: int | None) -> Architecture:
        try:
            return cls(
                layers=config.num_hidden_layers,
                hidden=config.hidden_size,
                feed_forward=config.intermediate_size,
                extra_tokens=3,  # [CLS] and two [SEP]
                max_length=max_length,
            )
        except (AttributeError, ValidationError):
            kind = type(config).__name__
            raise ConfigError(
                f"architecture='auto': {kind} does not name layers, hidden size and intermediate size as an encoder "
                f"does; name them: {', '.join(cls.model_fields)}"
            ) from None


_T5 = Architecture(
    kind="encoder_decoder", layers=12, hidden=768, feed_forward=3072, output_tokens=1, extra_tokens=8
)  # it reads monoT5's prompt and writes one word


ARCHITECTURES: Mapping[str, Architecture] = {
    "minilm-l6": Architecture(layers=6, hidden=384, feed_forward=1536, extra_tokens=3),
    "minilm-l12": Architecture(layers=12, hidden=384, feed_forward=1536, extra_tokens=3),
    "bert-base": Architecture(layers=12, hidden=768, feed_forward=3072, extra_tokens=3),
    "bert-large": Architecture(layers=24, hidden=1024, feed_forward=4096, extra_tokens=3),
    "t5-base": _T5,
    "t5-large": _T5.model_copy(update={"layers": 24, "hidden": 1024, "feed_forward": 4096}),
}
"""Rerankers' backbones by name, as published."""
