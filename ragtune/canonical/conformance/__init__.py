"""Conformance with the ragd specification (rule D14): fixed inputs and their golden answers.

The golden files of a specification version never change; a changed answer is a new version of the specification.
"""

SPEC = "1.1.0"
"""Version of the specification that the code is held to (semantic versioning)."""

SPECS = ("1.0.0", SPEC)
"""All versions that the code conforms with.

1.1.0 adds analyzers: words of one letter, C++, combining marks, pairs of Han, kana and Hangul, languages. Its fixtures
have a collection that is large enough for the indexes of a server."""
