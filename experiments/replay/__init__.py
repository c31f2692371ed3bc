"""Replays the queries of a collection: what they go through, where they run, and what survives an interruption."""
