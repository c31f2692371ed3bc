"""Caches on disk: whole folders of derived data, and single values that were paid for."""
