"""The research harness: Hydra and MLflow live here and only here."""

import sys
from importlib.util import find_spec

from experiments.checkout import hide_data_folders

hide_data_folders()

if not all(map(find_spec, ("hydra", "mlflow"))):
    from ragtune.core.errors import MissingExtraError

    sys.stderr.write(f"ragtune: {MissingExtraError('an experiment', 'experiments')}\n")
    sys.exit(2)
