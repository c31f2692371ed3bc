"""Golden decisions of the policies, golden answers of the canonical blocks, and the recorded outcome of both suites."""
