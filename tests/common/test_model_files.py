"""What is read of a model's folder is in that folder."""

import os
from pathlib import Path

import pytest

from common.errors import UserError
from common.model_files import is_its_own, licence_of, resolve, tensor_heads


@pytest.mark.parametrize(
    ("folder", "target", "is_read"),
    [
        ("start", "../secret", False),
        ("start", "other", True),
        ("hub/snapshots/1f", "../../blobs/9e", True),
        ("hub/snapshots/1f", "../../../secret", False),
    ],
)
def test_a_licence_that_is_a_link_out_of_its_folder_is_not_read(
    tmp_path: Path, folder: str, target: str, is_read: bool
) -> None:
    start = tmp_path / folder
    start.mkdir(parents=True)
    (start / target).parent.mkdir(parents=True, exist_ok=True)
    (start / target).write_text("HUSH")
    (start / "LICENSE").symlink_to(target)
    assert is_its_own(start / "LICENSE") == is_read
    assert licence_of(start) == ("HUSH" if is_read else "")


def test_a_local_folder_has_no_revision(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    assert resolve(str(tmp_path)) == tmp_path
    with pytest.raises(
        UserError, match="is a local folder, which has no revision abc; leave that out"
    ):
        resolve(str(tmp_path), revision="abc")


def make_cache(folder: Path, *revisions: str, main: str = "") -> Path:
    """Make the hub's cache of one repository, as its library lays it out."""
    cache = folder / "models--someone--tiny"
    (cache / "blobs").mkdir(parents=True)
    for revision in revisions:
        snapshot = cache / "snapshots" / revision
        snapshot.mkdir(parents=True)
        (cache / "blobs" / revision).write_text("{}")
        (snapshot / "config.json").symlink_to(f"../../blobs/{revision}")
    if main:
        (cache / "refs").mkdir()
        (cache / "refs" / "main").write_text(main)
    return cache


def test_the_hubs_cache_of_a_model_is_its_main_revision(tmp_path: Path) -> None:
    cache = make_cache(tmp_path, "1f", "2e", main="2e")
    assert resolve(str(cache)) == cache / "snapshots" / "2e"
    only = make_cache(tmp_path / "one", "3d")
    assert resolve(str(only)) == only / "snapshots" / "3d"
    several = make_cache(tmp_path / "several", "1f", "2e")
    with pytest.raises(UserError, match=r"holds 2 revisions; give one: .*1f, .*2e"):
        resolve(str(several))


def test_a_folder_of_models_is_refused_with_the_models_in_it(tmp_path: Path) -> None:
    (tmp_path / "out" / "models" / "mine").mkdir(parents=True)
    (tmp_path / "out" / "models" / "mine" / "config.json").touch()
    for given, said in (
        ("out", "it holds .*out/models/mine"),
        ("out/models/x", "in .*out/models: mine"),
    ):
        with pytest.raises(UserError, match=said):
            resolve(str(tmp_path / given))


def test_a_pipe_in_place_of_weights_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "model.safetensors")
    with pytest.raises(UserError, match=r"model\.safetensors is not a regular file"):
        tensor_heads(tmp_path)
