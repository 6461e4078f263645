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
