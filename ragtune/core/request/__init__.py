"""What belongs to one request: its account, clock, context and trace."""
