"""Estimators that follow a graph of similar documents."""
