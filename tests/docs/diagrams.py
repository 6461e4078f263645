"""Draws the two diagrams of the pages: the pipeline, and how the study's models branch from trunks.

python -m tests.docs.diagrams            # writes docs/images/pipeline.svg and docs/images/trunks.svg
"""

from collections.abc import Iterator

from common.provenance import ROOT
from paper_figures.drawing.style import CLM, GREY, INK, LIGHT, MLM, WHITE
from pretraining.plan.study_plan import load_study

IMAGES = ROOT / "docs" / "images"
ROOMS = (
    ("pretraining/", "models", "checkpoints"),
    ("benchmarks/", "fine-tunings", "run store"),
    ("analysis/", "verdicts", "scores"),
    ("paper_figures/", "pictures", "figures"),
    ("clm_or_mlm/", "report, Python", ""),
)
"""Each room, what it makes, and what follows from it."""
MODELS = (
    "610m-mlm40-42k",
    "610m-mlm40-dec42k-mlm40-54k",
    "610m-mlm40-dec42k-mlm40-64k",
    "610m-clm-42k",
    "610m-clm-10k-mlm40-42k",
    "610m-clm-21k-mlm40-42k",
    "610m-clm-32k-mlm40-42k",
    "610m-clm-dec42k-mlm40-54k",
    "610m-clm-dec42k-mlm40-64k",
)
"""The rows of the trunk tree; shorter budgets branch in the same way."""


def _svg(width: int, height: int, title: str, parts: Iterator[str]) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" '
        f'font-family="Helvetica, Arial, sans-serif" font-size="13"><title>{title}</title>'
        f'<rect width="{width}" height="{height}" fill="{WHITE}"/>{"".join(parts)}</svg>\n'
    )


def _text(
    x: float,
    y: float,
    words: str,
    *,
    anchor: str = "start",
    color: str = INK,
    more: str = "",
) -> str:
    return f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}" fill="{color}"{more}>{words}</text>'


def pipeline() -> str:
    """Return five boxes, one for each room that data go through."""

    def parts() -> Iterator[str]:
        for place, (room, makes, goes_on) in enumerate(ROOMS):
            x = 10 + 182 * place
            yield f'<rect x="{x}" y="20" width="108" height="54" rx="6" fill="{LIGHT}"/>'
            yield _text(x + 54, 43, room, anchor="middle", more=' font-weight="bold"')
            yield _text(x + 54, 62, makes, anchor="middle", color=GREY)
            if goes_on:
                yield f'<path d="M{x + 110} 47h66m-7 -5l7 5l-7 5" fill="none" stroke="{INK}"/>'
                yield _text(
                    x + 144,
                    38,
                    goes_on,
                    anchor="middle",
                    color=GREY,
                    more=' font-size="11"',
                )
        yield _text(
            10,
            102,
            "workflow/ runs these steps as jobs, in the images of container/",
            color=GREY,
        )
        yield _text(
            856, 102, "miniature/ runs them at toy scale", anchor="end", color=GREY
        )

    return _svg(
        866,
        114,
        "From documents to figures: the rooms, and what goes from one to the next",
        parts(),
    )


def trunks() -> str:
    """Return a row for each of `MODELS`: what it trains itself in colour, what it takes from a trunk in grey."""
    study, left, scale = load_study(None), 250, 9.2

    def x(step: int) -> float:
        return left + step / 1000 * scale

    def bar(start: int, end: int, y: int, color: str, opacity: float) -> str:
        size = f'width="{x(end) - x(start):g}" height="16"'
        return (
            f'<rect x="{x(start):g}" y="{y}" {size} fill="{color}" opacity="{opacity}"/>'
            if end > start
            else ""
        )

    def parts() -> Iterator[str]:
        trained: dict[str, int] = {}
        for place, name in enumerate(MODELS):
            y, path = 44 + 30 * place, ""
            yield _text(left - 10, y + 12, name, anchor="end")
            for stage in study.model(name).stages:
                color = (CLM if stage.objective == "clm" else MLM).color
                way = f"{path}{stage.objective}{stage.phase}"
                shared = min(stage.end, trained.get(way, stage.first_step))
                trained[way] = max(stage.end, shared)
                path = f"{way}{stage.end}"
                opacity = 0.55 if stage.phase == "decay" else 1
                yield bar(stage.first_step, shared, y, LIGHT, 1) + bar(
                    shared, stage.end, y, color, opacity
                )
        bottom = 44 + 30 * len(MODELS)
        for step in (0, 10000, 20000, 30000, 42000, 54000, 64000):
            yield _text(
                x(step),
                bottom + 12,
                f"{step // 1000}K" if step else "0",
                anchor="middle",
                color=GREY,
            )
        yield _text(x(64000), bottom + 32, "training steps", anchor="end", color=GREY)
        for place, (words, color) in enumerate(
            (
                ("CLM", CLM.color),
                ("MLM, 40 %", MLM.color),
                ("shared with a row above", LIGHT),
            )
        ):
            at = left + 110 * place
            yield (
                f'<rect x="{at}" y="14" width="16" height="12" fill="{color}"/>'
                + _text(at + 22, 25, words)
            )
        yield _text(left + 430, 25, "pale: the learning rate falls", color=GREY)

    height = 44 + 30 * len(MODELS) + 46
    return _svg(
        870,
        height,
        "The 610M models as branches of two trunks, over training steps",
        parts(),
    )


if __name__ == "__main__":
    for drawn in (pipeline, trunks):
        (IMAGES / f"{drawn.__name__}.svg").write_text(drawn(), encoding="utf-8")
