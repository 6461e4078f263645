"""Examples in docstrings are what they print, and each public function of the statistics and metrics has one."""

import doctest
import importlib
import inspect

import pytest

MODULES = (
    "analysis.statistics.crossed",
    "analysis.statistics.estimates",
    "analysis.statistics.inference",
    "analysis.statistics.learning_rate_selection",
    "analysis.statistics.nested_spreads",
    "benchmarks.metrics.floor",
    "benchmarks.metrics.metric",
    "benchmarks.metrics.paper",
    "benchmarks.metrics.standard",
)


@pytest.mark.parametrize("name", MODULES)
def test_examples_are_what_they_print(name: str) -> None:
    failed, tried = doctest.testmod(importlib.import_module(name))
    assert tried and not failed


@pytest.mark.parametrize("name", MODULES)
def test_public_functions_have_an_example(name: str) -> None:
    module = importlib.import_module(name)
    lacking = [
        function
        for function, value in inspect.getmembers(module, inspect.isroutine)
        if not function.startswith("_")
        and value.__module__ == name
        and ">>> " not in (value.__doc__ or "")
    ]
    assert lacking == []
