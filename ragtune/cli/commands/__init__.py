"""The subcommands of ``ragtune``: one file each."""
