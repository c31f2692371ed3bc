"""First stages of the harness on canonical stores."""
