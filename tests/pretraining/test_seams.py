"""Nothing of MosaicML's libraries is overridden in private."""

import importlib
import inspect


def test_no_private_name_of_composers_classes_is_overridden() -> None:
    checked = set()
    for name in ("composer_parts", "stage"):
        module = importlib.import_module(f"pretraining.training.{name}")
        for kind in (kind for _, kind in inspect.getmembers(module, inspect.isclass)):
            bases = [
                base
                for base in kind.__mro__[1:]
                if base.__module__.split(".")[0] == "composer"
            ]
            if kind.__module__ == module.__name__ and bases:
                checked.add(kind.__name__)
                private = {
                    key
                    for key, value in vars(kind).items()
                    if key[0] == "_" != key[1] and callable(value)
                }
                assert not private & {key for base in bases for key in vars(base)}, kind
    assert checked >= {"BucketViews", "PretrainingModel", "StageTraining", "StepData"}
