"""Import this before statsmodels: scipy.stats is then loaded when it is used."""

import importlib.util
import sys

import scipy

if "scipy.stats" not in sys.modules:
    spec = importlib.util.find_spec("scipy.stats")
    if spec and spec.loader:
        # All of statsmodels imports scipy.stats, which takes half a CPU second, and little of it needs it. With a lazy
        # loader, it is loaded when one of its names is used.
        spec.loader = importlib.util.LazyLoader(spec.loader)
        sys.modules[spec.name] = scipy.stats = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(scipy.stats)
