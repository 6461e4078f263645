"""Findings about continued pretraining (CPT): MLM from a finished model on, the start, which was trained for 42k steps.

The CLM start and the MLM start are compared after the same number of added steps. In names of models, 54k and 64k are
the steps in all: 12k and 22k of CPT.
"""

from __future__ import annotations

from analysis.claims.catalogue.terms import FULL, Region, mlm, not_behind, within
from analysis.claims.statements import Finding, all_of, difference, weighted
from analysis.evidence.contrasts import Contrast
from benchmarks.protocol import TASKS


def _cpt(start: str, total: str) -> str:
    """Return the 610M model that continues a finished `start` (`clm` or `mlm40`) with MLM to `total` steps in all."""
    # CPT starts from a model after the decay of its learning rate, hence dec42k; two-stage models from one before it.
    return f"610m-{start}-dec{FULL}-mlm40-{total}"


def _starts(total: str, task: str, *, closed: bool = False) -> Contrast:
    """Return the statement that the CLM start is ahead of the MLM start after CPT to `total` steps, such as `54k`.

    With `closed` the claim is that it has closed the gap: it is not behind by the task's margin or more.
    """
    added = (
        int(total.removesuffix("k")) - 42
    )  # thousands of steps after the start's own
    label = f"CLM start - MLM start on {task}, after {added}k steps of CPT"
    # A start that leads has also closed its gap: this is a test of non-inferiority, not of equivalence.
    region = not_behind(task) if closed else Region()
    return difference(label, _cpt("clm", total), _cpt("mlm40", total), task, **region)


def _last_gain(task: str) -> Contrast:
    """Return how much more the CLM start gains from 12k to 22k steps of CPT than the MLM start does."""
    return weighted(
        f"gain from 12k to 22k of CPT, CLM start - MLM start, {task}",
        [
            (1, _cpt("clm", "64k"), task),
            (-1, _cpt("clm", "54k"), task),
            (-1, _cpt("mlm40", "64k"), task),
            (1, _cpt("mlm40", "54k"), task),
        ],
    )


FINDINGS = (
    Finding(
        id="F11",
        statement="After 22k steps of MLM continued pretraining, the CLM start beats the MLM start on SC and TC "
        "and has closed the gap on QA and IR.",
        where="Figure 8, Tables 14-17",
        family="continued",
        body=all_of(
            "CLM start against MLM start after 22k steps",
            [
                all_of(
                    "ahead on SC and TC",
                    [_starts("64k", task) for task in ("SC", "TC")],
                ),
                all_of(
                    "gap closed on QA and IR",
                    [_starts("64k", task, closed=True) for task in ("QA", "IR")],
                ),
            ],
        ),
    ),
    Finding(
        id="F12",
        statement="12k steps of continued pretraining already suffice: the CLM start is ahead on TC and IR, on "
        "par on SC and close on QA.",
        where="Figure 9",
        family="continued",
        body=all_of(
            "CLM start against MLM start after 12k steps",
            [
                all_of(
                    "ahead on TC and IR",
                    [_starts("54k", task) for task in ("TC", "IR")],
                ),
                _starts("54k", "SC", closed=True),
                _starts("54k", "QA", closed=True),
            ],
        ),
        remark='We take "close" on QA to mean less than one point behind. The half about the loss is untested.',
    ),
    Finding(
        id="F13",
        statement="Between 12k and 22k steps of CPT, the CLM start improves more steeply than the MLM start, "
        "which plateaus, on SC in particular.",
        where="Figure 9",
        family="continued",
        body=all_of(
            "the last 10k steps on SC",
            [
                _last_gain("SC"),
                # A plateau is a change within the margin on either side: equivalence.
                difference(
                    "gain of the MLM start from 12k to 22k, SC",
                    _cpt("mlm40", "64k"),
                    _cpt("mlm40", "54k"),
                    "SC",
                    **within("SC"),
                ),
            ],
        ),
        reported=tuple(_last_gain(task) for task in ("TC", "QA", "IR")),
        remark="The verdict covers SC, which it names.",
    ),
    Finding(
        id="F15",
        statement="Starting from a finished CLM model and adding 12k steps of MLM is better than training MLM "
        "from scratch for 42k steps.",
        where="a public summary; Tables 14-17",
        family="continued",
        body=all_of(
            "CLM 42k then MLM 12k, minus MLM 42k",
            [
                difference(
                    f"CLM 42k then MLM 12k, minus MLM 42k, on {task}",
                    _cpt("clm", "54k"),
                    mlm("610m"),
                    task,
                )
                for task in TASKS
            ],
        ),
        # At the same compute: an MLM start with the same 12k steps.
        reported=tuple(_starts("54k", task) for task in TASKS),
        remark="The CLM model was trained for 54k steps in all, 28.6 % more than the MLM model. An MLM model with the "
        "same 12k extra steps is compared outside the verdict.",
    ),
)
