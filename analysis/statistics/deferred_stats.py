"""Import this before statsmodels: scipy.stats is then loaded when it is used."""

import importlib.util
import sys

import scipy

if "scipy.stats" not in sys.modules:
    spec = importlib.util.find_spec("scipy.stats")
    if spec and spec.loader:
        # All of statsmodels imports it, half a CPU second, and little of it needs it: it is loaded when it is used.
        spec.loader = importlib.util.LazyLoader(spec.loader)
        sys.modules[spec.name] = scipy.stats = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(scipy.stats)
