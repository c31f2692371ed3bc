"""Acquisition functions: what a belief about the pool makes worth scoring next."""
