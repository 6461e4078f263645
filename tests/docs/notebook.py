"""Runs docs/tutorial.ipynb from its first cell and writes it with what its cells show now.

python -m tests.docs.notebook [OUT]         # without OUT in place
"""

import os
import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient

from common.provenance import ROOT

NOTEBOOK = ROOT / "docs" / "tutorial.ipynb"


def executed(path: Path) -> nbformat.NotebookNode:
    """Return a notebook as its cells run now, in its folder as Jupyter does it, without times and machine."""
    notebook = nbformat.read(path, as_version=4)
    client = NotebookClient(
        notebook,
        timeout=300,
        record_timing=False,
        resources={"metadata": {"path": str(NOTEBOOK.parent)}},
    )
    client.execute(env=dict(os.environ) | {"PYTHONPATH": str(ROOT)})
    notebook.metadata = {
        "kernelspec": {
            "name": "python3",
            "display_name": "Python 3",
            "language": "python",
        },
        "language_info": {"name": "python"},
    }
    for number, cell in enumerate(notebook.cells):
        cell["id"] = f"cell-{number}"
    return notebook


if __name__ == "__main__":
    nbformat.write(executed(NOTEBOOK), Path(sys.argv[1]) if sys.argv[1:] else NOTEBOOK)
