"""Old place of :mod:`ragtune.superprompt.page`; goes with the next release."""

import sys
import warnings
from importlib import import_module

warnings.warn("ragtune.adapters.page is now ragtune.superprompt.page", DeprecationWarning, stacklevel=2)
sys.modules[f"{__name__}.session"] = import_module("ragtune.superprompt.page.session")
