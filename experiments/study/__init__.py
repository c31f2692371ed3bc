"""Replays the grid of a study: many policies over many collections and budgets."""
