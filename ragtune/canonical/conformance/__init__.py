"""Conformance with the ragd specification (rule D14): fixed inputs, golden answers, and who answers as they say.

The golden files of a specification version never change; a changed answer is a new version of the specification.
"""

SPEC = "1.0.0"
"""Version of the specification that the golden answers belong to (semantic versioning)."""
