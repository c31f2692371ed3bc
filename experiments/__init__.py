"""The research harness: Hydra and MLflow live here and only here."""

from experiments.checkout import hide_data_folders

hide_data_folders()
