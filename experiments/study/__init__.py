"""Studies: many policies over many collections, their quality and cost side by side."""
