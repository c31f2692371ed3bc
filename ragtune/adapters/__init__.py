"""Thin service adapters over the library."""
