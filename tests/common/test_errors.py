from pathlib import Path

from common.errors import first_line, nearest, path_hint


def test_nearest() -> None:
    assert (
        nearest("publishd", ["published", "released"]) == "; did you mean 'published'?"
    )
    assert nearest("zzz", ["published"]) == ""
    assert nearest("SST-2", ["sst2", "qqp"]) == "; did you mean 'sst2'?" and nearest(
        "NQ", ["nq"]
    )
    assert (
        nearest("list", ["ingest"])
        == nearest("13", ["3"])
        == nearest("F99", ["F9"])
        == ""
    )
    assert nearest("H10", ["H100", "A100"]) == "; did you mean 'H100'?"
    assert (
        nearest("mlm-42k", ["mlm30-42k", "mlm20-42k", "clm-42k"])
        == "; did you mean 'mlm20-42k' or 'mlm30-42k'?"
    )
    assert nearest("mlm-42k", [f"mlm{ratio}-42k" for ratio in range(10, 60, 10)]) == ""


def test_what_is_beside_a_path_that_is_not_there(tmp_path: Path) -> None:
    for name in (
        "models/one/config.json",
        "models/two/config.json",
        "models/notes/x.txt",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    models = tmp_path / "models"
    assert path_hint(models / "ones", "config.json") == "; did you mean 'one'?"
    assert path_hint(models / "third", "config.json") == f"; in {models}: one, two"
    assert (
        path_hint(tmp_path / "modles" / "one", "config.json")
        == "; did you mean 'models'?"
    )
    assert (
        path_hint(tmp_path / "x" / "y", "config.json")
        == path_hint(models / "x", "absent")
        == ""
    )


def test_the_first_line_of_a_message_stands_for_it() -> None:
    assert first_line(ValueError("\n  first.\nsecond")) == "first"
    assert first_line(ValueError()) == "ValueError"
    assert len(first_line(ValueError("x" * 10_000))) == 300
