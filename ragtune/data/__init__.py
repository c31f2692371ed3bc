"""Collections, texts and files: what the components read, and the caches of what they compute."""
