"""A whole small store, and the libraries of the paper's fine-tunings."""

import atexit
import gc
import os
import shutil
from collections.abc import Generator
from pathlib import Path

import pytest
from hypothesis import Phase, settings

from tests.analysis.stores import fill
from tests.oracle import VALIDATORS, CannotInstall, Oracle, install

# The same examples every time, and no limit of time: a loaded machine is no failure. A mutant that fails is killed,
# whatever its smallest example is.
PHASES = [
    one
    for one in Phase
    if "MUTATION_TESTING" not in os.environ or one not in (Phase.shrink, Phase.explain)
]
settings.register_profile("tests", derandomize=True, deadline=None, phases=PHASES)
settings.load_profile("tests")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Import the tests without looking for garbage, and spare every later search what they are: such searches take a
    fifth of a collection's time, and statsmodels asks for one in every adjustment."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()
        # Else triton takes what is frozen for a leak, and lists it
        atexit.register(gc.unfreeze)


@pytest.fixture(scope="session")
def whole_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    store = tmp_path_factory.mktemp("whole") / "store"
    fill(store)
    return store


@pytest.fixture
def store(whole_store: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(whole_store, tmp_path / "store"))


@pytest.fixture(scope="session")
def oracle() -> Oracle:
    """sentence-transformers 3.4.1 and its transformers, as `tests.oracle` installs and runs them."""
    try:
        return install()
    except CannotInstall as error:
        pytest.skip(f"requirements/oracle.txt cannot be installed here: {error}")


@pytest.fixture(scope="session")
def validators() -> Oracle:
    """The validator of SBOMs, as `tests.oracle` installs and runs them."""
    try:
        return install(lock=VALIDATORS)
    except CannotInstall as error:
        pytest.skip(f"requirements/validators.txt cannot be installed here: {error}")
