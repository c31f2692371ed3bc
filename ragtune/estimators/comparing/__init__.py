"""Estimators that order the pool by comparing windows of documents."""
