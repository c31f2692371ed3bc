"""The eight-stage prompt pipeline."""
