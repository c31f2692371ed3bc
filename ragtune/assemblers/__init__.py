"""Context assemblers."""
