"""The losses and scores that the quick miniature on made-up text ends in.

    python -m miniature run --form quick --until runs --out build/miniature
    python -m tests.miniature.pipeline.golden build/miniature > tests/golden/miniature.json

The numbers are committed. A change that is not meant to change the science must give them again, within the
tolerances of `test_golden.py`; a change that is must commit new ones and say why.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from analysis.store.runs_table import read_runs
from miniature.checks import final_losses, mean_scores
from miniature.data_source import MADE_UP
from miniature.forms import FORMS, RANDOM
from miniature.pipeline import folders_of


def ends(out: Path) -> dict[str, dict[str, object]]:
    """Return last validation losses, and mean test scores in percent, by model."""
    form = FORMS["quick"]
    folders = folders_of(form, MADE_UP, out)
    scores = mean_scores(read_runs(folders.table, add_models=(*form.models, RANDOM)))
    return {
        "losses": {name: round(loss, 4) for name, loss in final_losses(form, folders).items()},
        "scores": {
            str(model): {str(dataset): round(float(value), 2) for dataset, value in row.items()}
            for model, row in scores.to_dict("index").items()
        },
    }


if __name__ == "__main__":
    json.dump(ends(Path(sys.argv[1])), sys.stdout, indent=1)
    sys.stdout.write("\n")
