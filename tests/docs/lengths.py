"""Draws the three lengths of the toy study `curves`: python -m tests.docs.lengths writes docs/images/lengths.png."""

from collections.abc import Iterator

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from analysis.sources import open_source
from analysis.statistics.estimates import student_estimate
from common.files import write_bytes
from common.provenance import ROOT
from paper_figures.drawing import style
from paper_figures.save import picture
from tests.miniature.questions import (
    ARMS,
    BOTH,
    CLM,
    LENGTHS,
    MLM,
    SCORES,
    of_arm,
    values_of,
)

IMAGE = ROOT / "docs" / "images" / "lengths.png"
TITLE = (
    "MLM alone, CLM alone, and CLM for the first quarter, then MLM, at three lengths"
)
LOOKS = {MLM: style.MLM, CLM: style.CLM, BOTH: style.EXTRA[0]}


def points(
    values: pd.DataFrame,
) -> Iterator[tuple[str, str, int, float, float, float, int]]:
    """Yield score, arm, steps, mean, 95 % interval over pretrainings, and how many those are."""
    for score in SCORES:
        for arm, names in ARMS.items():
            for steps, name in zip(LENGTHS, names, strict=True):
                held = of_arm(values, name, score).to_numpy()
                # A model of CLM has no loss of MLM.
                if len(held) > 1 and (score, arm) != ("loss", CLM):
                    yield (
                        score,
                        arm,
                        steps,
                        held.mean(),
                        *student_estimate(held).interval(),
                        len(held),
                    )


def draw() -> bytes:
    """Return the picture as PNG, with what is seen in words."""
    found = pd.DataFrame(
        points(values_of(open_source("curves"))),
        columns=["score", "arm", "steps", "mean", "low", "high", "n"],
    )
    with style.paper_style():
        figure = Figure(figsize=(6.6, 2.7), layout="constrained")
        for ax, (score, title) in zip(
            figure.subplots(1, 3), SCORES.items(), strict=True
        ):
            for place, (arm, part) in enumerate(
                found[found["score"] == score].groupby("arm", sort=False)
            ):
                look, x = LOOKS[arm], part["steps"] * 1.04 ** (place - 1)
                ends = np.abs(
                    part[["low", "high"]].sub(part["mean"], axis=0)
                ).T.to_numpy()
                ax.errorbar(
                    x,
                    part["mean"],
                    yerr=ends,
                    color=look.color,
                    marker=look.marker,
                    linestyle=look.dash,
                    markersize=4,
                    linewidth=1.1,
                    label=arm,
                )
            ax.set_xscale("log")
            ax.set_xticks(LENGTHS, [f"{steps:,}" for steps in LENGTHS])
            ax.minorticks_off()
            ax.set_title(title, fontsize=8)
            ax.set_xlabel("steps")
        handles = {
            label: one
            for ax in figure.axes
            for one, label in zip(*ax.get_legend_handles_labels(), strict=True)
        }
        figure.legend(
            handles.values(),
            handles,
            loc="outside lower center",
            ncols=3,
            frameon=False,
        )
        said = "; ".join(
            f"{row.score}, {row.arm}, {row.steps} steps: {row.mean:.2f} [{row.low:.2f}, {row.high:.2f}], {row.n}"
            for row in found.itertuples()
        )
        return picture(figure, "png", title=TITLE, description=f"{TITLE}. {said}.")


if __name__ == "__main__":
    write_bytes(IMAGE, draw())
