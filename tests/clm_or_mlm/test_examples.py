"""Each public function has a complete example in its docstring, with the output that it gives."""

import doctest
import inspect

import pytest

import clm_or_mlm as cm

FUNCTIONS = [name for name in cm.__all__ if inspect.isfunction(getattr(cm, name))]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_example_of_a_function_gives_its_output(name: str) -> None:
    flags = doctest.NORMALIZE_WHITESPACE
    [example] = doctest.DocTestFinder(recurse=False).find(getattr(cm, name), globs={})
    assert f"cm.{name}(" in "".join(line.source for line in example.examples)
    result = doctest.DocTestRunner(optionflags=flags).run(example)
    assert result.failed == 0 < result.attempted
