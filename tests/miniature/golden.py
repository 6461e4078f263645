"""The losses and scores that the quick miniature on made-up text ends in.

    clm-or-mlm miniature run --form quick --out build/miniature
    python -m tests.miniature.golden build/miniature > tests/golden/miniature.json

The numbers are committed. A change that is not meant to change the science must give them again, within the
tolerances of `test_golden.py`; a change that is must commit new ones and say why.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from analysis.store.runs_table import read_runs
from miniature.checks import final_losses, mean_scores
from miniature.data import MADE_UP
from miniature.forms import FORMS
from miniature.toy_study import PRETRAINED, TABLE, Miniature


def ends(out: Path) -> dict[str, dict[str, object]]:
    """Return last validation losses, and mean test scores in percent, by model."""
    form = FORMS["quick"]
    miniature = Miniature.below(out, form, MADE_UP)
    root = miniature.root
    scores = mean_scores(form, read_runs(root / TABLE, add_models=miniature.model_names))
    return {
        "losses": {name: round(loss, 4) for name, loss in final_losses(form, root / PRETRAINED).items()},
        "scores": {
            str(model): {str(dataset): round(float(value), 2) for dataset, value in row.items()}
            for model, row in scores.dropna().sort_index().to_dict("index").items()
        },
    }


if __name__ == "__main__":
    json.dump(ends(Path(sys.argv[1])), sys.stdout, indent=1)
    sys.stdout.write("\n")
