"""Language models over an OpenAI-compatible API."""
