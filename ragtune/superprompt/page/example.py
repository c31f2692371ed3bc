"""The prompt that the page opens with: one that the demo collection answers."""

EXAMPLE = """## Task
Explain why my sourdough bread comes out dense, and what to change first.

## Context
I bake with wholemeal flour. The starter needs ten hours to double.

## Format
A short list, the most likely cause first.
"""
