"""The research harness: Hydra and MLflow live here and only here."""

import atexit
import gc
import sys
from importlib.util import find_spec

from experiments.checkout import hide_data_folders

hide_data_folders()

# What this application imports and reads, it keeps to its end: looking for garbage in it more rarely, and not at all at
# exit, makes every command about half a second faster.
gc.set_threshold(1_000_000, 20, 100)
atexit.register(gc.freeze)

if not all(map(find_spec, ("hydra", "mlflow"))):
    from ragtune.core.errors import MissingExtraError

    sys.stderr.write(f"ragtune: {MissingExtraError('an experiment', 'experiments')}\n")
    sys.exit(2)
