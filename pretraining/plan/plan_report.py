"""The plan as a document: a tree for terminals, JSON for programs."""

from __future__ import annotations

from dataclasses import MISSING, asdict, fields

from common.plain_text import counted
from common.tables import TableDocument, plain_table
from pretraining.models import Stage, format_steps
from pretraining.paper_models import figures_of
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
        """Add the line of a stage, then the lines of the stages that branch off it."""
        branch = deeper = ""
        if not root:
            branch = "`-- " if last else "|-- "
            deeper = indent + ("    " if last else "|   ")
        steps = f"{format_steps(item.first_step)} to {format_steps(item.end)}"
        finished = []
        for name in item.models:
            if plan.study.model(name).stages[-1].name == item.name:
                finished.append(name)
        note = ""
        if finished and finished != [item.name]:
            note = f"  = {', '.join(finished)}"
        mark = " *" if item.name in names else ""
        what = f"{item.trained_on.label()} {item.phase}, {steps}"
        lines.append(f"{indent}{branch}{item.name}{mark}  {what}{note}")
        children = plan.children(item.name)
        for child in children:
            walk(child, deeper, child is children[-1], False)

    origins = {model.start or "random initialisation" for model in plan.models}
    origin = " or ".join(sorted(origins))
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
    skip = plan.study.config.batches.skip
    if skip:
        lines.append(f"changes        skip={skip}")
    return "\n".join(lines) + "\n"


def _added(plan: Plan, device: Device, price: float | None) -> list[str]:
    """Return a table's lines with the costs that each stage of a model adds, from random weights or the start on."""
    head = ["adds", "steps", "tokens", "model FLOPs", f"{device.name} hours"]
    if price is not None:
        head.append("money")
    rows = [head]
    for item in plan.stages:
        costs = plan.costs([item], device=device)
        row = [item.name, f"{costs.steps:,}", f"{costs.tokens:.4g}"]
        row += [f"{costs.flops['model']:.4g}", f"{costs.gpu_hours:,.3g}"]
        if price is not None:
            row.append(f"{price * costs.gpu_hours:,.2f}")
        rows.append(row)
    return plain_table(rows, range(1, len(rows[0])))


def _totals(plan: Plan, device: Device, price: float | None) -> list[str]:
    """Return the total costs of all stages, a line for each quantity."""
    costs = plan.costs(device=device)
    lines: list[str] = []

    def add(name: str, words: str) -> None:
        lines.append(f"{name:15}{words}")

    alone = sum(model.steps for model in plan.models)
    add("steps", f"{costs.steps:,} ({alone:,} if every model were trained alone)")
    tokens, unique = _short(costs.tokens), _short(plan.data_tokens)
    add(
        "tokens",
        f"{tokens}; if the shards hold fewer than {unique}, they are repeated",
    )
    for data in dict.fromkeys(stage.data for stage in plan.stages):
        if data:
            most = _short(plan.tokens_of(data))
            add("", f"of them in {data} {most} for a model at most")
    by_hoffmann, of_model = costs.flops["hoffmann"], costs.flops["model"]
    mfu = _mfu(costs, device)
    used = f"{mfu:.0%}" if mfu >= 0.005 else "less than 1%"
    add(
        "FLOPs",
        f"{by_hoffmann:.4g} by Hoffmann et al., Appendix F; {of_model:.4g} model FLOPs",
    )
    hours = _figure(costs.gpu_hours)
    add(
        f"{device.name} hours",
        f"{hours} at {used} of the bf16 peak (model FLOPs), {device.basis(plan.shapes)}",
    )
    if price is not None:
        money = price * costs.gpu_hours
        add("money", f"{money:,.2f} at {price:g} an hour")
    memory = _figure(costs.memory_gb)
    add("memory", f"{memory} GB{_too_much(plan, costs, device)}")
    if plan.study.config.machine.compile == "off":
        add(
            "",
            "counted for compiled blocks; others take more, which `adapt` measures on the GPU",
        )
    sizes = [
        f"{_bytes(costs.checkpoint_bytes)} of kept checkpoints with optimiser state",
        f"{_bytes(costs.model_bytes)} of exported models",
        f"{_bytes(plan.data_bytes)} of decompressed shards",
    ]
    add("disk", ", ".join(sizes))
    return lines


def _mfu(costs: Costs, device: Device) -> float:
    return costs.flops["model"] / (costs.gpu_hours * 3600 * device.peak)


def _too_much(plan: Plan, costs: Costs, device: Device) -> str:
    """Return how many sequences a pass has, and what to do where the largest model does not fit on the device."""
    config = plan.study.config
    sequences = config.batches.pass_tokens // config.batches.max_length
    words = f" at {counted(sequences, 'sequence')} in a pass"
    if device.memory_gb is None or costs.memory_gb <= device.memory_gb:
        return words
    fits = sequences
    for item in plan.stages:
        shape = plan.study.shapes[item.size]
        length = config.batches.max_length
        most = largest_microbatch(shape, device.memory_gb, length, most=sequences)
        fits = min(fits, most)
    words += f", more than the {device.memory_gb:g} GB of one {device.name}"
    if not fits:
        return f"{words}; use another device or a smaller model"
    if config.batches.microbatch:
        return f"{words}; set microbatch={fits}"
    return f"{words}; training takes {fits} by itself"


def _short(count: float) -> str:
    return f"{count:,.0f}" if count < 1e9 else f"{count:.4g}"


def _figure(count: float) -> str:
    if count >= 10:
        return f"{count:,.0f}"
    if count >= 1:
        return f"{count:.1f}"
    return f"{count:.2g}"


def _bytes(size: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.3g} TB"


# Readers of the JSON know the field as `start`; in this package a start is what training begins from.
_KEYS = {"first_step": "start"}
"""Fields of a stage that have another name in the plan's JSON."""


def _stage(plan: Plan, item: PlannedStage, device: Device) -> dict[str, object]:
    """Return a planned stage: without the fields that no stage of the paper has, where they are not used; with what it
    adds, in other studies than the paper's."""
    optional = {field.name for field in fields(Stage) if field.default is not MISSING}
    unused = optional - item.extras().keys()
    entry = {}
    for name, value in asdict(item).items():
        if name not in unused:
            entry[_KEYS.get(name, name)] = value
    entry["steps"] = item.steps
    if plan.study is PAPER_STUDY:
        return entry
    costs = plan.costs([item], device=device)
    adds = {
        "tokens": costs.tokens,
        "flops": costs.flops,
        "gpu_hours": costs.gpu_hours,
    }
    return entry | adds


def _data(plan: Plan, device: Device, price: float | None) -> dict[str, object]:
    """Return the plan as the content of its JSON."""
    models = []
    for model in plan.models:
        entry: dict[str, object] = {"name": model.name, "kind": model.kind}
        entry |= {"steps": model.steps, "figures": figures_of(model.name)}
        if model.start:
            entry["start"] = model.start
        entry["stages"] = [stage.name for stage in model.stages]
        models.append(entry)
    changes = {}
    if plan.study.config.batches.skip:
        changes["skip"] = plan.study.config.batches.skip
    whole = plan.costs(device=device)
    costs = asdict(whole) | {"device": device.name, "mfu": _mfu(whole, device)}
    if price is not None:
        costs["money"] = price * whole.gpu_hours
    costs |= {"data_tokens": plan.data_tokens, "data_bytes": plan.data_bytes}
    return {
        "study": plan.study.name,
        "models": models,
        "stages": [_stage(plan, item, device) for item in plan.stages],
        "changes": changes,
        "costs": costs,
    }
