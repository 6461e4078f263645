"""One default interval for each kind of source, named with its coverage, in everything that prints "95 %"."""

import csv
import importlib
import inspect
import io
import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from analysis.evidence.intervals import INTERVALS
from analysis.sources import PUBLISHED, Source
from analysis.store.runs_table import write_runs
from clm_or_mlm.__main__ import COMMANDS, main
from common.errors import UserError
from paper_figures.figure import FIGURES, FigureInputs
from paper_figures.words import alt_text
from tests.analysis.made_up import made_up_runs

MODELS = [
    f"{size}-{kind}-42k" for size in ("210m", "610m", "1b") for kind in ("clm", "mlm40")
]
HOLDS = re.compile(r"covers the true mean \d+(?:\s% of|\sto\s\d+\s% of) the time")
DEFAULTS = {"published": "t", "runs": "pooled"}


@pytest.fixture(scope="module")
def sources() -> dict[str, Source]:
    runs = made_up_runs(np.random.default_rng(0), models=MODELS)
    return {"published": PUBLISHED, "runs": Source(label="mine", runs=runs)}


@pytest.fixture(scope="module")
def given(
    sources: dict[str, Source], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, str]:
    """What `--source` is given for each kind."""
    runs, path = (
        sources["runs"].runs,
        tmp_path_factory.mktemp("source") / "runs.parquet",
    )
    assert runs is not None
    write_runs(path, runs[runs["model"].isin(MODELS[:5])])
    return {"published": "published", "runs": str(path)}


@pytest.mark.parametrize(
    "kind", ["published", pytest.param("runs", marks=pytest.mark.slow)]
)
def test_the_report_names_the_default_and_its_coverage(
    kind: str, sources: dict[str, Source]
) -> None:
    from clm_or_mlm.report.html_page import render_page
    from tests.clm_or_mlm.report.window import content_of

    source = sources[kind]
    page = render_page(content_of(FigureInputs(source=source), ["2"]), {"source": kind})
    assert f"({DEFAULTS[kind]})" in page and HOLDS.search(page.replace("&nbsp;", " "))
    assert {name for name in INTERVALS if f"({name})" in page} == {DEFAULTS[kind]}


SEVERAL = {
    "audit": "recomputes the printed interval, the paper's",
}
"""Commands and figures that are about several intervals, which they name one by one."""
ELSEWHERE = {
    "report": "test_the_report_names_the_default_and_its_coverage",
    "reproduce": "writes what the other commands print",
}
WORDS = {"compare": MODELS[2:4], "table": ["3"]}
"""What a command needs besides its source."""


def commands() -> Iterator[tuple[str, Callable[..., Any]]]:
    """Yield the analysis commands that read scores: new ones are among them by themselves."""
    for command in COMMANDS.values():
        module, _, name = command.function.partition(":")
        if not module.startswith(("analysis.", "clm_or_mlm.")):
            continue
        function = getattr(importlib.import_module(module), name)
        if "source" in inspect.signature(function).parameters:
            yield name, function


def formats_of(function: Callable[..., Any]) -> tuple[str, ...]:
    """Return what `--format` takes, as far as it is text."""
    given = inspect.signature(function, eval_str=True).parameters.get("format")
    if given is None:
        return ()
    [choices] = [
        one.choices
        for one in given.annotation.__metadata__
        if getattr(one, "choices", None)
    ]
    return tuple(name for name in choices if name not in ("parquet", "pdf"))


def names_of_data(name: str, text: str) -> set[str]:
    """Return the intervals that data with bounds name; empty for data without bounds."""
    if name == "csv":
        rows = list(csv.DictReader(io.StringIO(text)))
        if not any(
            column in ("low", "high") or column.endswith("_low") for column in rows[0]
        ):
            return set()
        return {row["interval"] for row in rows if row["interval"]}
    objects: list[dict[str, object]] = []
    json.loads(text, object_hook=objects.append)
    return {value for one in objects if isinstance(value := one.get("interval"), str)}


def every_command() -> Iterator[Any]:
    for name, function in commands():
        if name not in SEVERAL and name not in ELSEWHERE:
            for form in formats_of(function) or ("",):
                # Markdown and LaTeX are the text's words.
                slow = form in ("markdown", "latex")
                yield pytest.param(
                    name,
                    form,
                    marks=pytest.mark.slow if slow else (),
                    id=f"{name}-{form}",
                )


@pytest.mark.parametrize("kind", ["published", "runs"])
@pytest.mark.parametrize(("name", "form"), list(every_command()))
def test_printed_intervals_name_their_default(
    name: str,
    form: str,
    kind: str,
    given: dict[str, str],
    capsys: pytest.CaptureFixture[str],
) -> None:
    main(
        [
            *name.split(),
            *WORDS.get(name, []),
            "--source",
            given[kind],
            *(["--format", form] if form else []),
        ]
    )
    said = capsys.readouterr().out
    text = " ".join(said.replace("\u00a0", " ").replace("\\%", "%").split())
    default = INTERVALS[DEFAULTS[kind]]
    if form in ("csv", "json"):
        assert names_of_data(form, said) <= {default.name}
        # Bounds without the name of their interval are a number that nobody can quote.
        assert names_of_data(form, said) or not re.search(r"\blow\b", said)
    elif re.search(r"95 ?%", text):
        printed_alone = name == "table" and kind == "published"
        assert HOLDS.search(text), text[-600:]
        assert printed_alone or default.name in text or default.words in text
        others = {
            other.name for other in INTERVALS.values() if f"({other.name})" in text
        }
        assert others <= {default.name}


def test_every_figure_with_an_interval_names_it(sources: dict[str, Source]) -> None:
    """Of the published cells; new figures are in the registry."""
    inputs = FigureInputs(source=sources["published"])
    seen = set()
    for name, entry in FIGURES.items():
        if name in SEVERAL or name in ELSEWHERE:
            continue
        figure = entry.load()
        try:
            data = figure.collect(inputs)
        except UserError:
            continue
        if not {"low", "high"} <= set(data.columns):
            continue
        seen.add(name)
        words = alt_text(figure, data, inputs).replace("\u00a0", " ")
        assert HOLDS.search(words), name
        assert INTERVALS["t"].caption(5) in words or "(t)" in words, name
    assert {"2", "claims"} <= seen


def test_what_is_said_to_be_about_several_intervals_is_there() -> None:
    known = {name for name, _ in commands()} | set(FIGURES)
    assert set(SEVERAL) | set(ELSEWHERE) <= known
