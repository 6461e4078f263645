"""The paper's metrics, and the field's."""

from benchmarks.metrics import paper, standard  # noqa: F401  (registers their metrics)
