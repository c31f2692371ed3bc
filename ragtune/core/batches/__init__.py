"""One batch from its price to its scores, and what happens when it fails."""
