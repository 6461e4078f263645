"""The quick miniature, from text to checks: it ends where it did.

    clm-or-mlm miniature run --form quick --out build/miniature
    python -m tests.miniature.test_pipeline_golden build/miniature > tests/golden/miniature.json

The losses and scores are committed. A change that is not meant to change the science must give them again, within
the tolerances; a change that is must commit new ones and say why.
"""

import json
import sys
from pathlib import Path

import pytest

from analysis.sources import open_source
from analysis.store.runs_table import read_runs
from common.provenance import ROOT
from miniature.checks import checks, final_losses, mean_scores
from miniature.data import MADE_UP
from miniature.forms import FORMS, RANDOM
from miniature.pipeline import make_miniature
from miniature.toy_study import ANALYSED, PRETRAINED, STORE, TABLE, Miniature


def ends(out: Path) -> dict[str, dict[str, object]]:
    """Return last validation losses, and mean test scores in percent, by model."""
    form = FORMS["quick"]
    miniature = Miniature.below(out, form, MADE_UP)
    root = miniature.root
    scores = mean_scores(form, read_runs(root / TABLE))
    return {
        "losses": {name: round(loss, 4) for name, loss in final_losses(form, root / PRETRAINED).items()},
        "scores": {
            str(model): {str(dataset): round(float(value), 2) for dataset, value in row.items()}
            for model, row in scores.dropna().sort_index().to_dict("index").items()
        },
    }


FORM = FORMS["quick"]


LOSS, SCORE = 0.02, 6.0


"""Tolerances: nats, and points of a mean over two seeds of 60 to 200 examples. Processors round differently."""


@pytest.mark.slow
@pytest.mark.timeout(3000)
def test_the_quick_miniature_ends_where_it_did(tmp_path: Path) -> None:
    miniature = Miniature.below(tmp_path, FORM, MADE_UP)
    summary = make_miniature(miniature)
    assert "MINIATURE" in summary and "Draw no conclusions" in summary
    assert open_source(str(miniature.root / STORE)).floors.keys() == set(FORM.families.values())
    golden = json.loads((ROOT / "tests/golden/miniature.json").read_text())
    found = ends(tmp_path)
    assert found["losses"] == pytest.approx(golden["losses"], abs=LOSS)
    assert found["scores"].keys() == golden["scores"].keys()
    for model, scores in golden["scores"].items():
        assert found["scores"][model] == pytest.approx(scores, abs=SCORE), model
    runs = read_runs(miniature.root / TABLE)
    _, differ, lower = checks(FORM, miniature.root / PRETRAINED, runs)
    assert differ.holds and lower.holds, (differ.seen, lower.seen)
    # Words alone decide the made-up SC and IR, so pretraining has something to give only where a word's kind counts.
    tags = {name: scores["uner_en"] for name, scores in found["scores"].items()}
    assert max(tags.values()) > tags[RANDOM] + 2
    analysed = miniature.root / ANALYSED
    assert "MINIATURE" in (analysed / "tables" / "table02.md").read_text()
    assert "MINIATURE" in (analysed / "claims.md").read_text()
    assert "MINIATURE. Figure 2." in (analysed / "figures" / "figure2.svg").read_text()
    assert "MINIATURE" in (analysed / "index.html").read_text()


if __name__ == "__main__":
    json.dump(ends(Path(sys.argv[1])), sys.stdout, indent=1)
    sys.stdout.write("\n")
