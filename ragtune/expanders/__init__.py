"""Pool expanders."""
