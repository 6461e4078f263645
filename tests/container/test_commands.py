"""`clm-or-mlm container`: what each command understands."""

from pathlib import Path

import pytest

from clm_or_mlm.__main__ import main
from container import commands as container
from container.check_lines import fail, ok, warn


@pytest.mark.parametrize(
    ("words", "image", "binds", "inside"),
    [
        (
            ["x.sif", "analysis", "table", "--x=1"],
            "x.sif",
            (),
            ("analysis", "table", "--x=1"),
        ),
        (
            ["--bind", "/a", "--bind=/b", "x.sif", "--", "a", "--bind", "c"],
            "x.sif",
            ("/a", "/b"),
            ("a", "--bind", "c"),
        ),
        (["x.sif", "--", "-h", "", "--x=1,2"], "x.sif", (), ("-h", "", "--x=1,2")),
        (["x.sif"], "x.sif", (), ()),
    ],
)
def test_what_follows_the_image_belongs_to_the_command_inside(
    words: list[str],
    image: str,
    binds: tuple[str, ...],
    inside: tuple[str, ...],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls: list[tuple[Path, tuple[str, ...], tuple[str, ...]]] = []
    monkeypatch.setattr(container, "launch", lambda *given: calls.append(given))
    main(["container", "run", *words])
    assert calls == [(Path(image).resolve(), inside, binds)]


def test_differences_that_make_it_another_image_are_exit_code_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [ok("file", "sha"), warn("commit", "older")]
    monkeypatch.setattr(container.images, "verify_image", lambda *_: list(lines))
    assert main(["container", "verify", "analysis"]) == 0
    lines.append(fail("packages", "a"))
    assert main(["container", "verify", "analysis"]) == 1
    assert "fail  packages  a\n" in capsys.readouterr().out
