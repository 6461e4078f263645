"""One default interval for each kind of source, named with its coverage, in everything that prints "95 %"."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from analysis.claims.assessment import assess
from analysis.claims.pages.formats import FORMATS as CLAIM_FORMATS
from analysis.sources import PUBLISHED, Source
from analysis.statistics.intervals import INTERVALS, PAPER
from analysis.statistics.scores import Settings
from analysis.tables.build import build_table, table_numbers
from analysis.tables.render import FORMATS as TABLE_FORMATS
from analysis.tables.score_list import FORMATS as SCORE_FORMATS
from common.errors import UserError
from paper_figures.figure_types import PaperFigure
from paper_figures.inputs import Inputs
from paper_figures.output.captions import alt_text, caption
from paper_figures.registry import FIGURES
from tests.analysis.made_up import made_up_runs, with_instances

MODELS = [f"{size}-{kind}-42k" for size in ("210m", "610m", "1b") for kind in ("clm", "mlm40")]
HOLDS = re.compile(r"of \d+ simulated seeds it holds the mean in \d+\s%")
PRINTED = PAPER.caption(5)


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Source]:
    rng = np.random.default_rng(0)
    table, folder = with_instances(
        tmp_path_factory.mktemp("one") / "i", rng, models=MODELS[2:4], counts={"msmarco": 43}
    )
    return {
        "published": PUBLISHED,
        "runs": Source(label="mine", runs=made_up_runs(rng, models=MODELS)),
        "runs with instances": Source(label="both", runs=table, instances=folder),
    }


DEFAULTS = {"published": "t", "runs": "studentised", "runs with instances": "studentised"}


def texts(source: Source) -> dict[str, str]:
    """Every output of a source that has a 95 % interval, with the defaults of the commands."""
    found: dict[str, str] = {}
    scores = source.scores(Settings())
    for name, form in SCORE_FORMATS.items():
        if form.is_text:
            found[f"scores.{name}"] = form.content(scores).decode()
    own = None if source.is_published else scores
    for number in table_numbers()[1:]:
        for name, form in TABLE_FORMATS.items():
            found[f"table{number}.{name}"] = form.show(build_table(number, own, source=source))
    assessment = assess(source, Settings(), second_opinion=False)
    for name, one in CLAIM_FORMATS.items():
        found[f"claims.{name}"] = one.verdicts(assessment, assessment.verdicts)
    inputs = Inputs(source=source)
    for name, entry in FIGURES.items():
        figure = entry.load()
        if name in ("coverage", "multiverse", "12") or (
            isinstance(figure, PaperFigure) and not figure.averaged
        ):
            continue  # of all intervals, of verdicts alone, of losses, of standard deviations
        try:
            data = figure.collect(inputs)
        except UserError:
            continue  # not of these models
        found[f"caption of {name}"] = caption(figure, data, inputs)
        if isinstance(figure, PaperFigure):
            found[f"alt text of {name}"] = alt_text(figure, data, inputs)
            found[f"data of {name}"] = data.to_csv(index=False)
    return found


@pytest.mark.parametrize("kind", list(DEFAULTS))
def test_every_output_has_the_default_of_its_kind_of_source_and_its_coverage(
    kind: str, sources: dict[str, Source]
) -> None:
    default = INTERVALS[DEFAULTS[kind]]
    assert sources[kind].default_interval is default
    words = default.caption(5).replace("\u00a0", " ")
    seen = texts(sources[kind])
    assert {"scores.csv", "table10.latex", "claims.markdown", "caption of claims"} <= set(seen)
    for output, text in seen.items():
        text = (
            text.replace("\u00a0", " ")
            .replace("\\%", "%")
            .replace("$\\surd$", "\u221a")
            .replace("&#39;", "'")
            .replace("&#x27;", "'")
        )
        if output.endswith(("csv", "json")) or output.startswith("data of"):
            assert names_in(output, text) == {default.name}, output
            continue
        if output.startswith("table") and sources[kind].is_published:
            assert PRINTED in text or PRINTED.replace("\u221a", "") in text, output
            continue
        assert words in text or f"({default.name})" in text or f"| {default.name} |" in text, output
        if not output.startswith("scores."):
            assert HOLDS.search(text), output


def names_in(output: str, text: str) -> set[str]:
    """The intervals of data: of a column `interval`, or of the settings."""
    if output.endswith("json"):
        return {json.loads(text)["interval"]}
    rows = list(csv.DictReader(io.StringIO(text)))
    names = {row["interval"] for row in rows if row["interval"]}
    # A table of printed cells alone has no recomputed interval to name.
    return names or {"t"}


def test_the_report_names_the_default_and_its_coverage(sources: dict[str, Source], tmp_path: Path) -> None:
    from clm_or_mlm.report.content import gather
    from clm_or_mlm.report.html_page import render_page
    from paper_figures.output.results import draw_figures

    for kind in ("published", "runs"):
        source = sources[kind]
        folder = tmp_path / kind
        draw_figures([FIGURES["2"].load()], Inputs(source=source), folder)
        page = render_page(gather(source, folder, Settings()), {"source": kind})
        assert f"({DEFAULTS[kind]})" in page and HOLDS.search(page.replace("&nbsp;", " "))
        others = {name for name in INTERVALS if f"({name})" in page}
        assert others == {DEFAULTS[kind]}


def test_few_seeds_are_flagged_wherever_they_are_printed(sources: dict[str, Source]) -> None:
    runs = sources["runs"].runs
    assert runs is not None
    few = Source(label="few", runs=runs[runs["seed"] < 2])
    scores = few.scores(Settings())
    assert set(scores["interval"]) == {"t"} and set(scores["n_seeds"]) == {2}
    text = TABLE_FORMATS["markdown"].show(build_table(3, scores, source=few))
    assert INTERVALS["t"].caption(2) in text and "n=2" in text
    inputs = Inputs(source=few)
    figure = FIGURES["2"].load()
    assert "Student's t; of 2 simulated seeds" in caption(figure, figure.collect(inputs), inputs).replace(
        "\u00a0", " "
    )
    assert isinstance(scores, pd.DataFrame)
