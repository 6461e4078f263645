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
    """Return a plan as a document that can be written in each of `PLAN_FORMATS`.

    Args:
        plan: the plan to show.
        device: the device whose hours are estimated.
        price: price of an hour of the device; None for a plan without money.
    """
    return TableDocument(
        data=_data(plan, device, price),
        indent=2,
        pages={"tree": lambda: _tree(plan, device, price)},
    )


def _tree(plan: Plan, device: Device, price: float | None) -> str:
    """Return the plan as text: a tree of stages, each with its children indented below it, and the costs."""
    models = counted(len(plan.models), "model")
    lines = [
        f"{models} of the study {plan.study.name!r}, {counted(len(plan.stages), 'stage')}",
        "",
    ]
    names = {model.name for model in plan.models}

    def walk(item: PlannedStage, indent: str, last: bool, root: bool) -> None:
        """Add the line of a stage, then the lines of the stages that branch off it.

        Args:
            item: the stage.
            indent: what its line begins with: the vertical lines of the stages above it.
            last: whether it is the last child of its parent, below which no vertical line goes on.
            root: whether it has no parent, and so no branch leads to it.
        """
        branch = children_indent = ""
        if not root:
            branch = "`-- " if last else "|-- "
            children_indent = indent + ("    " if last else "|   ")

        steps = f"{format_steps(item.first_step)} to {format_steps(item.end)}"
        # The models that end with this stage stand after it, unless the stage has the only model's name
        # itself. Another name has the checkpoint of a trunk (`610m-mlm40-42k-1000`), and a model that a study
        # file describes in full.
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
            is_last = child is children[-1]
            walk(child, children_indent, last=is_last, root=False)

    origins = {model.start or "random initialisation" for model in plan.models}
    origin = " or ".join(sorted(origins))
    for item in plan.children(None):
        # No branch leads to a root, so `last` changes nothing in its line.
        walk(item, "", last=True, root=True)
    lines += [
        "",
        f"* a model; steps are counted from {origin}; shared steps run only once",
        "",
    ]

    # Of one model, also what each stage adds. A single stage from random weights would only repeat the
    # totals. With a start the table always stands here: it says what is added to that start.
    if len(plan.models) == 1 and (len(plan.stages) > 1 or plan.models[0].start):
        lines += [*_added(plan, device, price), ""]
    lines += _totals(plan, device, price)
    skip = plan.study.config.batches.skip
    if skip:
        lines.append(f"changes        skip={skip}")
    return "\n".join(lines) + "\n"


def _added(plan: Plan, device: Device, price: float | None) -> list[str]:
    """Return the lines of a table with the costs of each stage, for a plan of one model."""
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

    # All columns but the first are numbers, which are aligned on the right.
    return plain_table(rows, range(1, len(rows[0])))


def _totals(plan: Plan, device: Device, price: float | None) -> list[str]:
    """Return the total costs of all stages, a line for each quantity."""
    costs = plan.costs(device=device)
    lines: list[str] = []

    def add(name: str, words: str) -> None:
        """Add a line with the name of a quantity; an empty name continues the quantity of the line before."""
        lines.append(f"{name:15}{words}")

    # Steps and tokens.
    unshared_steps = sum(model.steps for model in plan.models)
    add(
        "steps",
        f"{costs.steps:,} ({unshared_steps:,} if every model were trained alone)",
    )
    tokens, unique = _short(costs.tokens), _short(plan.data_tokens)
    add(
        "tokens",
        f"{tokens}; if the shards hold fewer than {unique}, they are repeated",
    )

    # Each set of shards that stages name, once. The command's own shards have no name here.
    for data in dict.fromkeys(stage.data for stage in plan.stages):
        if data:
            most = _short(plan.tokens_of(data))
            add("", f"of them in {data} {most} for a model at most")

    # Computation, hours and money.
    hoffmann_flops, model_flops = costs.flops["hoffmann"], costs.flops["model"]
    mfu = _mfu(costs, device)

    # A smaller share than half a percent would be printed as 0%.
    used = f"{mfu:.0%}" if mfu >= 0.005 else "less than 1%"
    add(
        "FLOPs",
        f"{hoffmann_flops:.4g} by Hoffmann et al., Appendix F; {model_flops:.4g} model FLOPs",
    )
    hours = _rounded(costs.gpu_hours)
    add(
        f"{device.name} hours",
        f"{hours} at {used} of the bf16 peak (model FLOPs), {device.basis(plan.shapes)}",
    )
    if price is not None:
        money = price * costs.gpu_hours
        add("money", f"{money:,.2f} at {price:g} an hour")

    # Memory and disk.
    memory = _rounded(costs.memory_gb)
    add("memory", f"{memory} GB{_pass_note(plan, costs, device)}")
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
    """Return the share of the device's peak rate that the estimated hours use (model FLOPs utilisation)."""
    return costs.flops["model"] / (costs.gpu_hours * 3600 * device.peak)


def _pass_note(plan: Plan, costs: Costs, device: Device) -> str:
    """Return the words that follow the GB of memory: the sequences of a pass, and what to do if they do not fit."""
    config = plan.study.config
    sequences = config.batches.pass_tokens // config.batches.max_length
    words = f" at {counted(sequences, 'sequence')} in a pass"
    if device.memory_gb is None or costs.memory_gb <= device.memory_gb:
        return words

    # The most sequences that fit for every model of the plan.
    fits = sequences
    for item in plan.stages:
        shape = plan.study.shapes[item.size]
        length = config.batches.max_length
        most = largest_microbatch(shape, device.memory_gb, length, most=sequences)
        fits = min(fits, most)

    words += f", more than the {device.memory_gb:g} GB of one {device.name}"
    if not fits:
        return f"{words}; use another device or a smaller model"

    # Without the setting, training chooses a pass that fits.
    if config.batches.microbatch:
        return f"{words}; set microbatch={fits}"
    return f"{words}; training takes {fits} by itself"


def _short(count: float) -> str:
    """Return a large number in full up to a billion, else with four significant digits."""
    return f"{count:,.0f}" if count < 1e9 else f"{count:.4g}"


def _rounded(count: float) -> str:
    """Return a number as a whole number from 10 on, else with two significant digits."""
    if count >= 10:
        return f"{count:,.0f}"
    if count >= 1:
        return f"{count:.1f}"
    return f"{count:.2g}"


def _bytes(size: float) -> str:
    """Return a size in the largest unit of which it is at least one."""
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.3g} TB"


# Readers of the JSON know the field as `start`; in this package a start is what training begins from.
_KEYS = {"first_step": "start"}
"""Fields of a stage that have another name in the plan's JSON."""


def _stage(plan: Plan, item: PlannedStage, device: Device) -> dict[str, object]:
    """Return a planned stage as the JSON has it.

    Optional fields of a stage are there only if they are not at their defaults. In all studies but the
    paper's, the costs of the stage stand there, too. The JSON of the paper's plan keeps the fields that it
    had before stages had costs.
    """
    optional = {field.name for field in fields(Stage) if field.default is not MISSING}
    at_default = optional - item.extras().keys()
    entry = {}
    for name, value in asdict(item).items():
        if name not in at_default:
            entry[_KEYS.get(name, name)] = value

    entry["steps"] = item.steps
    if plan.study is PAPER_STUDY:
        return entry
    costs = plan.costs([item], device=device)
    stage_costs = {
        "tokens": costs.tokens,
        "flops": costs.flops,
        "gpu_hours": costs.gpu_hours,
    }
    return entry | stage_costs


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
    total = plan.costs(device=device)
    costs = asdict(total) | {"device": device.name, "mfu": _mfu(total, device)}
    if price is not None:
        costs["money"] = price * total.gpu_hours
    costs |= {"data_tokens": plan.data_tokens, "data_bytes": plan.data_bytes}
    return {
        "study": plan.study.name,
        "models": models,
        "stages": [_stage(plan, item, device) for item in plan.stages],
        "changes": changes,
        "costs": costs,
    }
