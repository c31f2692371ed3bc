"""Statistics of rankings and tests that the library and the harness share."""
