"""Measures, cost curves, summaries and tests of what was replayed."""
