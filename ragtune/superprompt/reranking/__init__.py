"""How the ReRanker stage spends."""
