"""The pipeline as a first stage of the harness."""
