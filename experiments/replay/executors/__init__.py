"""Executors: where queries run. The results do not depend on the choice."""
