"""First-stage retrievers."""
