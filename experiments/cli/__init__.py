"""The commands: exit codes and messages, one experiment, sweeps."""
