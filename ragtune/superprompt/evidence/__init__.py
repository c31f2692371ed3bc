"""Judges what was found: scores, support, duplicates, quotations, citations."""
