"""Which room may import which, read from the code; and that the light rooms stay light when they run."""

from __future__ import annotations

import ast
import subprocess
import sys
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from common.provenance import ROOT

HEAVY = {"torch", "transformers", "composer", "streaming", "tokenizers", "datasets", "sentence_transformers"}
"""What the small environment does not hold."""

LIGHT_MODULES = {
    "benchmarks.own_datasets.definition_file", "benchmarks.own_datasets.definitions",
    "benchmarks.hub_files", "benchmarks.protocol", "benchmarks.runs",
    "pretraining.model_names", "pretraining.paper_settings", "pretraining.plan.flops", "pretraining.sequence_lengths",
    "pretraining.special_tokens", "pretraining.training.log",
}  # fmt: skip
"""What `analysis` and `paper_figures` may import from the rooms above them."""

SHARED_READERS = {"benchmarks.results_json"}
"""The same for formats that two rooms read; these need NumPy and orjson, which the small environment holds."""

ALLOWED = {
    "common": set(),
    "pretraining": {"common"},
    "benchmarks": {"common", "pretraining"},
    "analysis": {"common", "benchmarks", "pretraining"},
    "paper_figures": {"common", "analysis", "benchmarks", "pretraining"},
    "container": {"common"},
    "workflow": {"common", "analysis", "benchmarks", "container", "paper_figures", "pretraining"},
    "miniature": {"common", "analysis", "benchmarks", "pretraining", "workflow"},
    "clm_or_mlm": {
        "common", "analysis", "benchmarks", "container", "miniature", "paper_figures", "pretraining", "workflow",
    },
}  # fmt: skip
"""For each room the others it may import from; data flows the other way. A `__main__` hands over to the top room."""

FILES = [
    pytest.param(path, id=str(path.relative_to(ROOT)))
    for room in ALLOWED for path in sorted((ROOT / room).rglob("*.py"))
]  # fmt: skip


def imported(path: Path) -> set[str]:
    """Return the modules that a file imports anywhere in it; `from a import b` counts as `a` and `a.b`."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            found |= {f"{node.module}", *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


def is_module(name: str) -> bool:
    path = ROOT.joinpath(*name.split("."))
    return path.with_suffix(".py").is_file() or (path / "__init__.py").is_file()


@pytest.mark.parametrize("path", FILES)
def test_imports_run_one_way(path: Path) -> None:
    room = path.relative_to(ROOT).parts[0]
    modules = {name for name in imported(path) if is_module(name)}
    others = {name for name in modules if name.split(".")[0] in ALLOWED and name.split(".")[0] != room}
    allowed = ALLOWED[room] | ({"clm_or_mlm"} if path.name == "__main__.py" else set())
    assert {name.split(".")[0] for name in others} <= allowed
    if room in ("analysis", "paper_figures"):
        upward = {name for name in others if name.split(".")[0] in ("benchmarks", "pretraining")}
        assert upward - {"benchmarks", "pretraining"} <= LIGHT_MODULES | SHARED_READERS
        assert not {name.split(".")[0] for name in imported(path)} & HEAVY


@pytest.mark.parametrize("name", sorted(LIGHT_MODULES))
def test_light_modules_need_the_standard_library_only(name: str) -> None:
    path = ROOT.joinpath(*name.split(".")).with_suffix(".py")
    tops = {module.split(".")[0] for module in imported(path)}
    assert tops <= set(sys.stdlib_module_names) | {"common", "benchmarks", "pretraining", "__future__"}


@pytest.mark.parametrize("name", sorted(SHARED_READERS))
def test_shared_readers_need_little_more(name: str) -> None:
    path = ROOT.joinpath(*name.split(".")).with_suffix(".py")
    tops = {module.split(".")[0] for module in imported(path)}
    assert tops <= set(sys.stdlib_module_names) | {"common", "benchmarks", "numpy", "orjson", "__future__"}


def loaded_after(code: str) -> set[str]:
    """Return the top-level packages that a fresh interpreter has loaded after `code`."""
    script = f"import sys\n{code}\nprint(*sorted({{name.split('.')[0] for name in sys.modules}}))"
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return set(done.stdout.split())


def test_no_module_of_analysis_or_figures_loads_a_heavy_package() -> None:
    names = [
        ".".join(path.relative_to(ROOT).with_suffix("").parts)
        for room in ("analysis", "paper_figures") for path in sorted((ROOT / room).rglob("*.py"))
        if path.stem not in ("__main__", "__init__")
    ]  # fmt: skip
    loaded = loaded_after(
        "import importlib\nfor name in " + repr(names) + ":\n    importlib.import_module(name)"
    )
    assert "matplotlib" in loaded
    assert not loaded & HEAVY


def test_drawing_a_figure_loads_neither_pyplot_nor_statistics_it_does_not_need(tmp_path: Path) -> None:
    """Its title needs a verdict, and that scipy's distributions."""
    code = f"from paper_figures.__main__ import main\nassert main(['3', '--out', {str(tmp_path)!r}]) == 0"
    script = f"import sys\n{code}\nprint(*sorted(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True
    )
    modules = set(done.stdout.split())
    assert not modules & {*HEAVY, "matplotlib.pyplot", "statsmodels", "pyarrow.dataset"}


def test_the_light_modules_load_nothing_heavy() -> None:
    loaded = loaded_after(f"import {', '.join(sorted(LIGHT_MODULES))}")
    assert not loaded & {*HEAVY, "numpy", "pandas", "scipy", "matplotlib"}


def test_what_a_login_node_runs_needs_its_own_lock_only() -> None:
    loaded = loaded_after("import clm_or_mlm.commands.container, clm_or_mlm.commands.workflow")
    assert not loaded & {*HEAVY, "orjson", "pyarrow", "scipy", "statsmodels", "matplotlib"}


def folder_of(module: str) -> str:
    """Return the sub-folder of a room that a module belongs to: `analysis/store`, or the module itself at the top."""
    parts = module.split(".")
    return "/".join(parts[:2])


@pytest.mark.parametrize("depth", ["modules", "folders"])
def test_no_import_runs_back(depth: str) -> None:
    """Neither modules nor the folders of a room import each other in a circle."""
    name = folder_of if depth == "folders" else str
    graph: dict[str, set[str]] = {}
    for param in FILES:
        path = param.values[0]
        assert isinstance(path, Path)
        if path.stem in ("__init__", "__main__"):
            continue
        own = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        used = {
            module
            for module in imported(path)
            if is_module(module) and (ROOT / f"{module.replace('.', '/')}.py").is_file()
        }
        graph.setdefault(name(own), set()).update(name(module) for module in used)
    for node in graph:
        graph[node].discard(node)
    TopologicalSorter(graph).prepare()  # raises CycleError, which names the circle
