"""Fusion of ranked lists."""
