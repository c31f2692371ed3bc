"""The packaged agents, one JSON file each: ``<name>.<version>.json``."""
