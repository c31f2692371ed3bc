"""The eight-stage prompt pipeline: from a user's words to a prompt with context."""

from ragtune.superprompt.options import PipelineConfig
from ragtune.superprompt.pipeline import Pipeline
from ragtune.superprompt.super_prompt import ContextChunk, SuperPrompt, Turn

__all__ = ["ContextChunk", "Pipeline", "PipelineConfig", "SuperPrompt", "Turn"]
