"""All that can be chosen about the pipeline, in one schema: for the page, the command line and the library alike."""

from ragtune.superprompt.options.model import PromptOptions
from ragtune.superprompt.options.reading import load_options

__all__ = ["PromptOptions", "load_options"]
