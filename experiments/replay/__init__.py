"""Replaying a collection's queries: what is replayed, where, and what is kept on the way."""
