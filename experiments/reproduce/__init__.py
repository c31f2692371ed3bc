"""Published figures of papers, and what the code of today gives for them."""
