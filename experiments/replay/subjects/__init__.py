"""What an experiment replays, one a file."""
