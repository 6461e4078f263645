"""Which room may import which and how long its modules are, read from the code; the light rooms stay light."""

import ast
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

from common.provenance import ROOT
from tests.commands import python

HEAVY = {
    "torch",
    "transformers",
    "composer",
    "streaming",
    "tokenizers",
    "datasets",
    "sentence_transformers",
}
"""What the small environment does not hold."""

LIGHT_MODULES = {
    "benchmarks.own_datasets.definition_file",
    "benchmarks.own_datasets.definitions",
    "benchmarks.protocol",
    "benchmarks.run_fields",
    "benchmarks.runs",
    "pretraining.models",
    "pretraining.paper_models",
    "pretraining.paper_settings",
    "pretraining.plan.flops",
    "pretraining.training.log",
}
"""What `analysis` and `paper_figures` may import from the rooms above them."""

SHARED_READERS = {
    "benchmarks.commands",
    "benchmarks.results_json",
    "pretraining.names",
    "pretraining.plan.study_plan",
}
"""The same for what two rooms read, a format or names; these need what the small environment holds."""

ALLOWED = {
    "common": set(),
    "pretraining": {"common"},
    "benchmarks": {"common", "pretraining"},
    "analysis": {"common", "benchmarks", "pretraining"},
    "paper_figures": {"common", "analysis", "benchmarks", "pretraining"},
    "container": {"common"},
    "workflow": {
        "common",
        "analysis",
        "benchmarks",
        "container",
        "paper_figures",
        "pretraining",
    },
    "miniature": {"common", "analysis", "benchmarks", "pretraining", "workflow"},
    "clm_or_mlm": {
        "common",
        "analysis",
        "benchmarks",
        "container",
        "miniature",
        "paper_figures",
        "pretraining",
        "workflow",
    },
}
"""For each room the others it may import from; data flows the other way."""

FILES = [path for room in ALLOWED for path in sorted((ROOT / room).rglob("*.py"))]
_NO_MODULES = ("__init__", "__main__")
MOST_LINES = 700
"""Of a module: what a reader can hold."""


@cache
def imported(path: Path) -> set[str]:
    """Return the modules that a file imports anywhere in it; `from a import b` counts as `a` and `a.b`."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            found |= {
                f"{node.module}",
                *(f"{node.module}.{alias.name}" for alias in node.names),
            }
    return found


def is_module(name: str) -> bool:
    path = ROOT.joinpath(*name.split("."))
    return path.with_suffix(".py").is_file() or (path / "__init__.py").is_file()


def wrong_imports(path: Path) -> set[str]:
    """Return what a file imports against the direction of the rooms."""
    room = path.relative_to(ROOT).parts[0]
    names = imported(path)
    others = {
        name
        for name in names
        if is_module(name) and name.split(".")[0] in ALLOWED.keys() - {room}
    }
    wrong = {name for name in others if name.split(".")[0] not in ALLOWED[room]}
    if room in ("analysis", "paper_figures"):
        above = {
            name
            for name in others
            if name.split(".")[0] in ("benchmarks", "pretraining") and "." in name
        }
        wrong |= above - LIGHT_MODULES - SHARED_READERS
        wrong |= {name for name in names if name.split(".")[0] in HEAVY}
    return wrong


def test_imports_run_one_way() -> None:
    found = {str(path.relative_to(ROOT)): wrong_imports(path) for path in FILES}
    assert {path: wrong for path, wrong in found.items() if wrong} == {}


def test_no_module_is_longer_than_a_reader_can_hold() -> None:
    lines = {
        str(path.relative_to(ROOT)): len(path.read_text("utf-8").splitlines())
        for path in FILES
    }
    assert {path: count for path, count in lines.items() if count > MOST_LINES} == {}


def test_no_module_of_analysis_or_figures_loads_a_heavy_package() -> None:
    names = [
        ".".join(path.relative_to(ROOT).with_suffix("").parts)
        for room in ("analysis", "paper_figures")
        for path in sorted((ROOT / room).rglob("*.py"))
        if path.stem not in ("__main__", "__init__")
    ]
    code = f"import importlib, sys\nfor name in {names!r}:\n    importlib.import_module(name)\nprint(*sys.modules)"
    loaded = set(python("-c", code, code=0).stdout.splitlines()[-1].split())
    assert "matplotlib" in loaded
    assert not loaded & HEAVY


LIGHT_STEPS = {
    "import clm_or_mlm": {"pandas"},
    "from clm_or_mlm.__main__ import main\nfor words in (['--all'], ['benchmarks']):\n    main(words)": {
        "pandas",
        "numpy",
        "pydantic",
    },
    f"import {', '.join(sorted(LIGHT_MODULES))}": {
        "numpy",
        "pandas",
        "scipy",
        "matplotlib",
    },
    # What a login node runs needs its own lock only.
    "import container.commands, workflow.commands": {
        "orjson",
        "pyarrow",
        "scipy",
        "statsmodels",
        "matplotlib",
    },
    "import pretraining.commands": set(),
    # A figure's caption needs scipy's distributions; only one that counts needs Holm's adjustment too.
    "import tempfile\nwith tempfile.TemporaryDirectory() as out:\n"
    "    assert main(['figure', '8', '--out', out]) == 0": {
        "matplotlib.pyplot",
        "statsmodels",
        "pyarrow.dataset",
    },
    "with tempfile.TemporaryDirectory() as out:\n    assert main(['figure', '3', '--out', out]) == 0": {
        "scipy.stats._stats_py",
    },
}
"""What one process does after another, and what it does not load by then; the lightest comes first."""


def test_nothing_heavy_is_loaded_before_it_is_needed() -> None:
    code = "import sys\n" + "".join(
        f"{step}\nprint('LOADED', *sys.modules)\n" for step in LIGHT_STEPS
    )
    lines = python("-c", code, code=0).stdout.splitlines()
    loaded = [set(line.split()[1:]) for line in lines if line.startswith("LOADED ")]
    found = {
        step: names & {*HEAVY, *unwanted}
        for (step, unwanted), names in zip(LIGHT_STEPS.items(), loaded, strict=True)
    }
    assert {step: names for step, names in found.items() if names} == {}


def folder_of(module: str) -> str:
    """Return the sub-folder of a room that a module belongs to: `analysis/store`, or the module itself at the top."""
    parts = module.split(".")
    return "/".join(parts[:2])


def test_no_import_runs_back() -> None:
    """Neither modules nor the folders of a room import each other in a circle."""
    for name in (str, folder_of):
        graph: dict[str, set[str]] = {}
        for path in FILES:
            if path.stem in _NO_MODULES:
                continue
            own = name(".".join(path.relative_to(ROOT).with_suffix("").parts))
            used = {
                module
                for module in imported(path)
                if (ROOT / f"{module.replace('.', '/')}.py").is_file()
            }
            graph.setdefault(own, set()).update(
                {name(module) for module in used} - {own}
            )
        TopologicalSorter(graph).prepare()  # raises CycleError, which names the circle
