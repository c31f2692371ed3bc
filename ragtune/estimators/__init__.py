"""Estimators of candidate value."""
