"""Writes what a study or a comparison found: tables, figures, pages and the recommendation."""
