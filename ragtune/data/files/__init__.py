"""Files that users bring: their forms, records, lines, values and content hashes."""
