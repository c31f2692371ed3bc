"""Subjects: what an experiment replays its queries through."""
