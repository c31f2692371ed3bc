"""The research harness: Hydra and MLflow live here and only here."""
