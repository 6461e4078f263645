"""The report as text: every cell, every finding, one file that loads nothing, small enough to send."""

import html
import re
from dataclasses import replace

import pytest

from analysis.evidence.intervals import INTERVALS
from analysis.evidence.settings import Settings
from analysis.published_cells import published_cells
from analysis.sources import PUBLISHED, Source
from analysis.tables.paper_arithmetic import Reference, check_arithmetic
from clm_or_mlm.report.content import PageContent, gather
from clm_or_mlm.report.html_page import render_page
from paper_figures.figure import FigureInputs
from tests.analysis.stores import released_source
from tests.clm_or_mlm.report.window import as_read

MOST_BYTES = 5_000_000


def test_page_holds_every_published_cell(published: str) -> None:
    for cell in published_cells().itertuples():
        assert f"{cell.mean:.2f} ± {cell.ci95:.2f}" in published
    for name in ("F1", "F15", "Table 17.", "figure3", "2,373,120"):
        assert name in published


def test_page_is_one_file_and_loads_nothing(published: str, with_runs: str) -> None:
    for page in (published, with_runs):
        assert len(page.encode()) < MOST_BYTES
        # An address of the web stands in links that a reader may follow, nowhere else.
        outside = [
            page[found.start() - 60 : found.end()]
            for found in re.finditer(r"https?://", page)
        ]
        assert all(re.search(r'<a href="https://$', text) for text in outside), outside
        assert not re.search(
            r'@import|<link rel="stylesheet"|<iframe|fetch\(|XMLHttpRequest|sendBeacon',
            page,
        )
        assert set(re.findall(r"url\((.)", page)) == {"#"}, (
            "only parts of the page itself"
        )
        assert not re.search(r"<(?:script|img|source|object|embed)\b[^>]*\bsrc=", page)
        ids = re.findall(r'\bid="([^"]+)"', page)
        assert ids and len(ids) == len(set(ids))


def test_what_users_wrote_is_escaped(with_runs: str) -> None:
    assert "&lt;my&gt; runs" in with_runs and "<my> runs" not in with_runs


def test_command_names_what_is_not_the_default(
    published: str, with_runs: str, own_content: PageContent
) -> None:
    assert '<pre tabindex="0">make report</pre>' in published
    assert (
        "make report SOURCE='<my> runs' ARGS='--interval bootstrap --resamples 200'</pre>"
        in html.unescape(with_runs)
    )
    source = replace(
        own_content.source,
        label="results/ (standard protocol)",
        protocol="standard",
        added_models=("mine",),
    )
    settings = Settings(selection="mean", interval="pooled")
    page = render_page(replace(own_content, source=source, settings=settings), {})
    words = "SOURCE=standard:results/ ARGS='--add-model mine --selection mean'"
    assert f"make report {words}</pre>" in html.unescape(page)


def test_equal_content_gives_equal_bytes(
    published_content: PageContent, published: str
) -> None:
    again = render_page(
        published_content, {"source": "published", "versions": {"numpy": "2"}}
    )
    assert again == published


def test_each_interval_says_how_often_it_holds_the_mean(published: str) -> None:
    part = as_read(published[published.index('id="intervals"') :])
    assert all(one.caption(5) in part for one in INTERVALS.values())


def test_without_runs_no_count_of_cells_is_printed(
    published: str, with_runs: str
) -> None:
    assert "none of the paper's 736 scores was recomputed" in html.unescape(published)
    assert "Cells by table and status" not in published
    assert "Cells by table and status" in with_runs and ">Distinct<" in with_runs


def test_paper_is_compared_with_itself_its_code_and_its_release(
    published: str,
) -> None:
    for reference, part in zip(
        Reference, published.split("<h3>The paper against ")[1:], strict=True
    ):
        said = as_read(part.split("</ol>")[0])
        differing = [
            one
            for one in check_arithmetic()
            if one.status == "differs" and one.against is reference
        ]
        assert (
            said.startswith(reference.value)
            and len(differing) == said.count(f": {reference.words[0]} ") > 0
        )
        assert all(
            f"{one.statement}: {reference.words[0]} {one.stated}; " in said
            for one in differing
        )
        # The most consequential first
        assert "two-stage" in differing[0].statement or len(differing) == 1
    assert (
        "each model was pretrained once" in published.lower()
        and "which queries each NQ score" in published
    )


@pytest.mark.parametrize(
    ("shift", "said"),
    [
        (
            0.0,
            "1 agree to the printed digits, 0 more within the printed interval, 0 are outside it.",
        ),
        (
            -0.02,
            "Table 2, 610m-mlm40-42k, sst2: printed 91.42, recomputed 89.42 (-2.00)",
        ),
    ],
)
def test_runs_count_once_and_differences_show_both_numbers(
    shift: float, said: str
) -> None:
    content = gather(
        FigureInputs(source=released_source(shift), settings=Settings(interval="t")), []
    )
    page = " ".join(as_read(render_page(content, {})).split())
    assert (
        "From 30 runs of test, 1 of the paper's 736 scores were recomputed: " in page
        and said in page
    )


def test_a_source_of_another_kind_says_so_in_the_first_lines(
    published_content: PageContent, own: Source
) -> None:
    standard = replace(own, protocol="standard")
    page = render_page(replace(published_content, source=standard), {})
    opening = page[page.index("<header ") : page.index("</header>")]
    assert (
        "STANDARD PROTOCOL" in opening
        and "not the paper&#39;s metrics" in opening.replace("'", "&#39;")
    )
    assert "not comparable with the paper's, so the audit" in page
    assert PUBLISHED.comparable
