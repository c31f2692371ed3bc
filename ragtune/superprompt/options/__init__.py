"""All options of the pipeline in one schema, for the page, the command line and the library."""

from ragtune.superprompt.options.model import PromptOptions
from ragtune.superprompt.options.reading import load_options

__all__ = ["PromptOptions", "load_options"]
