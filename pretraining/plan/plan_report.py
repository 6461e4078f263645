"""The plan as a document: a tree for terminals, JSON for programs."""

from __future__ import annotations

from dataclasses import asdict

from common.errors import UserError, nearest
from common.plain_text import counted
from common.tables import TableDocument
from pretraining.models import format_steps
from pretraining.plan.flops import PEAK_FLOPS
from pretraining.plan.study_plan import Plan, PlannedStage

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

    for item in plan.children(None):
        walk(item, "", True, True)
    lines += [
        "",
        "* a model; steps are counted from random initialisation; shared steps run only once",
        "",
    ]
    lines += _totals(plan, device)
    if skip := plan.study.config.skip:
        lines.append(f"changes        skip={skip}")
    return "\n".join(lines) + "\n"


def _totals(plan: Plan, device: str) -> list[str]:
    costs = plan.costs(device=device, utilisation=_MFU)
    alone = sum(model.steps for model in plan.models)
    return [
        f"steps          {costs.steps:,} ({alone:,} if every model were trained alone)",
        f"tokens         {_short(costs.tokens)}; if the shards hold fewer than {_short(plan.data_tokens)}, they are "
        "repeated",
        f"FLOPs          {costs.flops['hoffmann']:.4g} by Hoffmann et al., Appendix F; "
        f"{costs.flops['model']:.4g} model FLOPs",
        f"{device} hours".ljust(15) + f"{costs.gpu_hours:,.0f} at {_MFU:.0%} of the bf16 peak (model FLOPs)",
        f"disk           {_bytes(costs.checkpoint_bytes)} of kept checkpoints with optimiser state, "
        f"{_bytes(costs.model_bytes)} of exported models, {_bytes(plan.data_bytes)} of decompressed shards",
    ]


def _short(count: float) -> str:
    return f"{count:,.0f}" if count < 1e9 else f"{count:.4g}"


def _bytes(size: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.3g} TB"


def _data(plan: Plan, device: str) -> dict[str, object]:
    return {
        "study": plan.study.name,
        "models": [
            {name: getattr(model, name) for name in ("name", "kind", "steps", "figures")}
            | {"stages": [stage.name for stage in model.stages]}
            for model in plan.models
        ],
        "stages": [asdict(item) | {"steps": item.steps} for item in plan.stages],
        "changes": {"skip": skip} if (skip := plan.study.config.skip) else {},
        "costs": asdict(plan.costs(device=device, utilisation=_MFU))
        | {"device": device, "mfu": _MFU}
        | {name: getattr(plan, name) for name in ("data_tokens", "data_bytes")},
    }
