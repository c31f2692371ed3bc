"""What is made before a run: stores, score tables and graphs."""
