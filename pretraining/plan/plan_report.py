"""The plan as a document: a tree for terminals, JSON for programs."""

from __future__ import annotations

from dataclasses import MISSING, asdict, fields

from common.errors import UserError, nearest
from common.plain_text import counted
from common.tables import TableDocument
from pretraining.models import Stage, format_steps
from pretraining.plan.flops import PEAK_FLOPS
from pretraining.plan.study_plan import PAPER_STUDY, Plan, PlannedStage

__all__ = ["PLAN_FORMATS", "plan_document"]

PLAN_FORMATS = ("tree", "json")
"""How a plan is printed."""
_MFU = 0.4
"""Share of a device's peak rate that a plan's hours count with."""


def plan_document(plan: Plan, *, device: str = "H100") -> TableDocument:
    """Return the plan.

    Args:
        plan: the work to show.
        device: a device of `pretraining.plan.flops.PEAK_FLOPS`.

    Raises:
        UserError: an unknown device.
    """
    if device not in PEAK_FLOPS:
        known = ", ".join(PEAK_FLOPS)
        raise UserError(f"unknown device {device!r}; devices are {known}{nearest(device, PEAK_FLOPS)}")
    return TableDocument(data=_data(plan, device), indent=2, pages={"tree": lambda: _tree(plan, device)})


def _tree(plan: Plan, device: str) -> str:
    models = counted(len(plan.models), "model")
    lines = [f"{models} of the study {plan.study.name!r}, {counted(len(plan.stages), 'stage')}", ""]
    names = {model.name for model in plan.models}

    def walk(item: PlannedStage, indent: str, last: bool, root: bool) -> None:
        branch = "" if root else ("`-- " if last else "|-- ")
        steps = f"{format_steps(item.start)} to {format_steps(item.end)}"
        made = [name for name in item.models if plan.study.model(name).stages[-1].name == item.name]
        note = f"  = {', '.join(made)}" if made and made != [item.name] else ""
        mark = " *" if item.name in names else ""
        lines.append(f"{indent}{branch}{item.name}{mark}  {item.label()} {item.phase}, {steps}{note}")
        below = plan.children(item.name)
        deeper = indent if root else indent + ("    " if last else "|   ")
        for place, child in enumerate(below):
            walk(child, deeper, place == len(below) - 1, False)

    starts = {model.start for model in plan.models}
    origin = "random initialisation" if starts == {""} else " or ".join(sorted(map(_origin, starts)))
    for item in plan.children(None):
        walk(item, "", True, True)
    lines += [
        "",
        f"* a model; steps are counted from {origin}; shared steps run only once",
        "",
    ]
    if len(plan.models) == 1 and len(plan.stages) > 1:
        lines += [*_added(plan, device), ""]
    lines += _totals(plan, device)
    if skip := plan.study.config.skip:
        lines.append(f"changes        skip={skip}")
    return "\n".join(lines) + "\n"


def _added(plan: Plan, device: str) -> list[str]:
    """Return what each stage of a model adds, from random weights or the start on, as lines of one table."""
    rows = [("adds", "steps", "tokens", "model FLOPs", f"{device} hours")]
    for item in plan.stages:
        costs = plan.costs([item], device=device, utilisation=_MFU)
        rows.append(
            (item.name, f"{costs.steps:,}", f"{costs.tokens:.4g}", f"{costs.flops['model']:.4g}",
             f"{costs.gpu_hours:,.3g}")
        )  # fmt: skip
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            [
                row[0].ljust(widths[0]),
                *(word.rjust(width) for word, width in zip(row[1:], widths[1:], strict=True)),
            ]
        )
        for row in rows
    ]


def _totals(plan: Plan, device: str) -> list[str]:
    costs = plan.costs(device=device, utilisation=_MFU)
    alone = sum(model.steps for model in plan.models)
    return [
        f"steps          {costs.steps:,} ({alone:,} if every model were trained alone)",
        f"tokens         {_short(costs.tokens)}; if the shards hold fewer than {_short(plan.data_tokens)}, they are "
        "repeated",
        *(
            f"               of them in {data} {_short(plan.tokens_of(data))} for a model at most"
            for data in dict.fromkeys(stage.data for stage in plan.stages)
            if data
        ),
        f"FLOPs          {costs.flops['hoffmann']:.4g} by Hoffmann et al., Appendix F; "
        f"{costs.flops['model']:.4g} model FLOPs",
        f"{device} hours".ljust(15) + f"{costs.gpu_hours:,.0f} at {_MFU:.0%} of the bf16 peak (model FLOPs)",
        f"disk           {_bytes(costs.checkpoint_bytes)} of kept checkpoints with optimiser state, "
        f"{_bytes(costs.model_bytes)} of exported models, {_bytes(plan.data_bytes)} of decompressed shards",
    ]


def _origin(start: str) -> str:
    return start or "random initialisation"


def _short(count: float) -> str:
    return f"{count:,.0f}" if count < 1e9 else f"{count:.4g}"


def _bytes(size: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.3g} TB"


def _stage(plan: Plan, item: PlannedStage, device: str) -> dict[str, object]:
    """Return a planned stage: without the fields that no stage of the paper has, where they are not used; with what it
    adds, in other studies than the paper's."""
    rare = {each.name for each in fields(Stage) if each.default is not MISSING} - item.extras().keys()
    kept = {key: value for key, value in asdict(item).items() if key not in rare} | {"steps": item.steps}
    if plan.study is PAPER_STUDY:
        return kept
    costs = plan.costs([item], device=device, utilisation=_MFU)
    return kept | {name: getattr(costs, name) for name in ("tokens", "flops", "gpu_hours")}


def _data(plan: Plan, device: str) -> dict[str, object]:
    return {
        "study": plan.study.name,
        "models": [
            {name: getattr(model, name) for name in ("name", "kind", "steps", "figures")}
            | ({"start": model.start} if model.start else {})
            | {"stages": [stage.name for stage in model.stages]}
            for model in plan.models
        ],
        "stages": [_stage(plan, item, device) for item in plan.stages],
        "changes": {"skip": skip} if (skip := plan.study.config.skip) else {},
        "costs": asdict(plan.costs(device=device, utilisation=_MFU))
        | {"device": device, "mfu": _MFU}
        | {name: getattr(plan, name) for name in ("data_tokens", "data_bytes")},
    }
