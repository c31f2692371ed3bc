"""A leaderboard of policies, those of other packages included."""
