"""The configuration: composed by Hydra, checked, resolved to plain data."""
