"""The command line, ``ragtune NAME ...``."""
