"""Runs that are there already, compared."""
