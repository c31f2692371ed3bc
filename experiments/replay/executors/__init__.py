"""Where queries run; results are the same whichever it is."""
