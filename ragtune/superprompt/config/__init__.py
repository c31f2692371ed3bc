"""Defaults as data: ``pipeline.json`` (limits and switches) and ``prompt_schema.json`` (keys and names)."""
