"""The eight-stage prompt pipeline: from a user's words to a prompt with context."""

from ragtune.superprompt.super_prompt import ContextChunk
from ragtune.superprompt.limits import PipelineConfig
from ragtune.superprompt.pipeline import Pipeline
from ragtune.superprompt.super_prompt import SuperPrompt, Turn

__all__ = ["ContextChunk", "Pipeline", "PipelineConfig", "SuperPrompt", "Turn"]
