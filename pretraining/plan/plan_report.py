"""The plan as a document: a tree for terminals, JSON for programs."""

from __future__ import annotations

from dataclasses import MISSING, asdict, fields

from common.plain_text import counted
from common.tables import TableDocument, plain_table
from pretraining.models import Stage, format_steps
from pretraining.plan.devices import H100, Device, largest_microbatch
from pretraining.plan.study_plan import PAPER_STUDY, Costs, Plan, PlannedStage

PLAN_FORMATS = ("tree", "json")
"""How a plan is printed."""


def plan_document(
    plan: Plan, *, device: Device = H100, price: float | None = None
) -> TableDocument:
    """Return the plan.

    Args:
        plan: the work to show.
        device: the device that hours are of.
        price: of an hour of it; None: no money is counted.
    """
    return TableDocument(
        data=_data(plan, device, price),
        indent=2,
        pages={"tree": lambda: _tree(plan, device, price)},
    )


def _tree(plan: Plan, device: Device, price: float | None) -> str:
    models = counted(len(plan.models), "model")
    lines = [
        f"{models} of the study {plan.study.name!r}, {counted(len(plan.stages), 'stage')}",
        "",
    ]
    names = {model.name for model in plan.models}

    def walk(item: PlannedStage, indent: str, last: bool, root: bool) -> None:
        """Add the line of a stage, then those of what branches off it."""
        branch = "" if root else ("`-- " if last else "|-- ")
        steps = f"{format_steps(item.start)} to {format_steps(item.end)}"
        finished = [
            name
            for name in item.models
            if plan.study.model(name).stages[-1].name == item.name
        ]
        note = (
            f"  = {', '.join(finished)}" if finished and finished != [item.name] else ""
        )
        mark = " *" if item.name in names else ""
        lines.append(
            f"{indent}{branch}{item.name}{mark}  {item.trained_on.label()} {item.phase}, {steps}{note}"
        )
        children = plan.children(item.name)
        deeper = indent if root else indent + ("    " if last else "|   ")
        for number, child in enumerate(children, 1):
            walk(child, deeper, number == len(children), False)

    starts = {model.start for model in plan.models}
    origin = (
        "random initialisation"
        if starts == {""}
        else " or ".join(sorted(map(_origin, starts)))
    )
    for item in plan.children(None):
        walk(item, "", True, True)
    lines += [
        "",
        f"* a model; steps are counted from {origin}; shared steps run only once",
        "",
    ]
    if len(plan.models) == 1 and (len(plan.stages) > 1 or plan.models[0].start):
        lines += [*_added(plan, device, price), ""]
    lines += _totals(plan, device, price)
    if skip := plan.study.config.batches.skip:
        lines.append(f"changes        skip={skip}")
    return "\n".join(lines) + "\n"


def _added(plan: Plan, device: Device, price: float | None) -> list[str]:
    """Return what each stage of a model adds, from random weights or the start on, as lines of one table."""
    rows = [
        [
            "adds",
            "steps",
            "tokens",
            "model FLOPs",
            f"{device.name} hours",
            *["money"] * (price is not None),
        ]
    ]
    for item in plan.stages:
        costs = plan.costs([item], device=device)
        money = [f"{price * costs.gpu_hours:,.2f}"] if price is not None else []
        rows.append(
            [
                item.name,
                f"{costs.steps:,}",
                f"{costs.tokens:.4g}",
                f"{costs.flops['model']:.4g}",
                f"{costs.gpu_hours:,.3g}",
                *money,
            ]
        )
    return plain_table(rows, range(1, len(rows[0])))


def _totals(plan: Plan, device: Device, price: float | None) -> list[str]:
    """Return what all stages take together, a line for each quantity."""
    costs, name = plan.costs(device=device), device.name
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
        f"{name} hours".ljust(15)
        + f"{_figure(costs.gpu_hours)} at {_mfu(costs, device):.0%} of the bf16 peak "
        f"(model FLOPs), {device.basis}",
        *(
            [f"money          {price * costs.gpu_hours:,.2f} at {price:g} an hour"]
            if price is not None
            else []
        ),
        f"memory         {_figure(costs.memory_gb)} GB{_too_much(plan, costs, device)}",
        *(
            [
                "               counted for compiled blocks; others take more, which `adapt` measures on the GPU"
            ]
            if plan.study.config.machine.compile == "off"
            else []
        ),
        f"disk           {_bytes(costs.checkpoint_bytes)} of kept checkpoints with optimiser state, "
        f"{_bytes(costs.model_bytes)} of exported models, {_bytes(plan.data_bytes)} of decompressed shards",
    ]


def _mfu(costs: Costs, device: Device) -> float:
    return costs.flops["model"] / (costs.gpu_hours * 3600 * device.peak)


def _too_much(plan: Plan, costs: Costs, device: Device) -> str:
    """Return how many sequences a pass has, and what to do where the largest model does not fit on the device."""
    config = plan.study.config
    sequences = config.batches.pass_tokens // config.batches.max_length
    words = f" at {counted(sequences, 'sequence')} in a pass"
    if device.memory_gb is None or costs.memory_gb <= device.memory_gb:
        return words
    shapes = [plan.study.shapes[item.size] for item in plan.stages]
    fits = min(
        largest_microbatch(
            shape, device.memory_gb, config.batches.max_length, most=sequences
        )
        for shape in shapes
    )
    words += f", more than the {device.memory_gb:g} GB of one {device.name}; "
    if not fits:
        return f"{words}use another device or a smaller model"
    return words + (
        f"set microbatch={fits}"
        if config.batches.microbatch
        else f"training takes {fits} by itself"
    )


def _origin(start: str) -> str:
    return start or "random initialisation"


def _short(count: float) -> str:
    return f"{count:,.0f}" if count < 1e9 else f"{count:.4g}"


def _figure(count: float) -> str:
    return (
        f"{count:,.0f}"
        if count >= 10
        else f"{count:.1f}"
        if count >= 1
        else f"{count:.2g}"
    )


def _bytes(size: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.3g} TB"


def _stage(plan: Plan, item: PlannedStage, device: Device) -> dict[str, object]:
    """Return a planned stage: without the fields that no stage of the paper has, where they are not used; with what it
    adds, in other studies than the paper's."""
    optional = {field.name for field in fields(Stage) if field.default is not MISSING}
    unused = optional - item.extras().keys()
    kept = {key: value for key, value in asdict(item).items() if key not in unused} | {
        "steps": item.steps
    }
    if plan.study is PAPER_STUDY:
        return kept
    costs = plan.costs([item], device=device)
    return kept | {
        name: getattr(costs, name) for name in ("tokens", "flops", "gpu_hours")
    }


def _data(plan: Plan, device: Device, price: float | None) -> dict[str, object]:
    """Return the plan as its JSON has it."""
    costs = plan.costs(device=device)
    return {
        "study": plan.study.name,
        "models": [
            {
                name: getattr(model, name)
                for name in ("name", "kind", "steps", "figures")
            }
            | ({"start": model.start} if model.start else {})
            | {"stages": [stage.name for stage in model.stages]}
            for model in plan.models
        ],
        "stages": [_stage(plan, item, device) for item in plan.stages],
        "changes": {"skip": skip} if (skip := plan.study.config.batches.skip) else {},
        "costs": asdict(costs)
        | {"device": device.name, "mfu": _mfu(costs, device)}
        | ({} if price is None else {"money": price * costs.gpu_hours})
        | {name: getattr(plan, name) for name in ("data_tokens", "data_bytes")},
    }
