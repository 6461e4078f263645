"""What the report shows: the answer of its source, findings with their comparisons, tables, the audit."""

from dataclasses import replace

from analysis.claims.catalogue import FINDINGS
from analysis.evidence.settings import Settings
from analysis.sources import Source
from clm_or_mlm.report.content import PageContent
from clm_or_mlm.report.html_page import render_page
from clm_or_mlm.report.small_forest import SmallForest
from paper_figures.drawing.style import paper_style
from paper_figures.figure import FigureInputs
from tests.clm_or_mlm.report.window import as_read, content_of
from tests.paper_figures.drawn import collected


def test_it_has_every_finding_once_and_the_answer_of_its_source(
    published_content: PageContent, own_content: PageContent
) -> None:
    for content in (published_content, own_content):
        assert [entry.id for entry in content.findings] == ["answer", *FINDINGS]
        assert [
            entry.id for entries in content.families.values() for entry in entries
        ] != []
        assert sum(len(entries) for entries in content.families.values()) == 1 + len(
            FINDINGS
        )
        shown = as_read(render_page(content, {}))
        said = content.answer
        sentences = (
            said.headline,
            said.pretraining,
            *said.splits,
            *said.cautions,
            said.findings,
        )
        assert all(shown.count(sentence) == 1 for sentence in filter(None, sentences))
    assert "25 % CLM" in published_content.answer.headline
    assert "does not say" in own_content.answer.headline


def test_findings_have_the_forests_that_the_source_allows(
    published_content: PageContent,
) -> None:
    entries = {entry.id: entry for entry in published_content.findings}
    forest = SmallForest.of(entries["F8"].main)
    assert forest is not None and len(forest.marks) == 12
    assert SmallForest.of(entries["F7"].main) is None


def test_a_picture_is_the_drawing_without_heading_and_caption(
    published_content: PageContent,
) -> None:
    [shown] = [
        picture for picture in published_content.pictures if picture.name == "figure3"
    ]
    drawn = collected("3")
    with paper_style():
        bare = drawn.spec.draw(drawn.data, "", "")
    assert f'viewBox="0 18 518.4 {72 * bare.get_figheight() - 18:g}"' in shown.drawn
    assert "Masking ratio (%)" in shown.drawn
    assert not any(
        text.get_text() in shown.drawn for text in drawn.drawing.texts if text.get_gid()
    )


def test_published_cells_are_compared_with_nothing(
    published_content: PageContent,
) -> None:
    assert [entry.table.number for entry in published_content.tables] == list(
        range(1, 18)
    )
    assert all(entry.differing is None for entry in published_content.tables)


def test_runs_are_compared_cell_by_cell(own_content: PageContent) -> None:
    differing = [
        entry.differing for entry in own_content.tables if entry.differing is not None
    ]
    assert sum(differing) > 0 and own_content.audit.differs
    runs = own_content.source.runs
    assert runs is not None and runs["model"].nunique() == 4 and len(runs) > 100


def test_without_task_averages_the_page_lacks_the_papers_figures(
    own: Source,
) -> None:
    assert own.runs is not None
    alone = Source(
        label="sst2",
        runs=own.runs[own.runs["dataset"] == "sst2"].reset_index(drop=True),
    )
    content = content_of(
        FigureInputs(source=alone, settings=Settings(interval="t")), ["3", "8"]
    )
    assert content.pictures == () and "does not say" in content.answer.headline
    page = render_page(content, {})
    assert (
        "for lack of scores in this source" in page
        and "Not drawn from this source" in page
    )


def test_other_numbers_get_the_audit_of_published_cells(
    own: Source,
) -> None:
    other = replace(own, protocol="standard")
    settings = Settings(interval="bootstrap", resamples=200)
    content = content_of(FigureInputs(source=other, settings=settings), ["3"])
    assert content.audit.source == "published" and not content.audit.has_runs
