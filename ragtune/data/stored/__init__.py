"""Collections and columns on disk, memory-mapped, for more data than memory should hold."""
