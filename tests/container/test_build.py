from pathlib import Path

import pytest

from common.errors import UserError
from container import build as module
from container.build import IMAGES, mirror_of, snapshot_of, without
from container.packing import squashfs_options


def _apt(folder: Path, **files: str) -> Path:
    (folder / "sources.list.d").mkdir(parents=True)
    for name, text in files.items():
        (folder / name.replace("__", "/").replace("_", ".")).write_text(text)
    return folder


def test_the_mirror_is_the_environments_then_the_machines(tmp_path: Path) -> None:
    apt = _apt(tmp_path, sources_list="# deb http://old.example/debian bookworm main\n"
                                      "deb [arch=amd64] http://near.example/debian bookworm main\n")  # fmt: skip
    assert mirror_of({}, apt) == "http://near.example/debian"
    assert mirror_of({"DEBIAN_MIRROR": "http://given.example/debian"}, apt) == "http://given.example/debian"


def test_deb822_sources_are_read_and_other_repositories_passed_over(tmp_path: Path) -> None:
    apt = _apt(tmp_path)
    (apt / "sources.list.d" / "a.list").write_text("deb http://packages.example/tool stable main\n")
    (apt / "sources.list.d" / "debian.sources").write_text(
        "Types: deb\n# http://dated.example/archive/debian/20250520T000000Z\nURIs: http://near.example/debian/\n"
    )
    assert mirror_of({}, apt) == "http://near.example/debian/"


def test_no_mirror_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no Debian mirror is known here: give one by --mirror"):
        mirror_of({}, tmp_path)


def test_an_unknown_image_names_the_nearest() -> None:
    with pytest.raises(UserError, match="unknown image 'analisys'; did you mean 'analysis'"):
        IMAGES["analisys"]


def test_the_recorded_date_is_read(tmp_path: Path) -> None:
    lock = tmp_path / "debian.lock"
    with pytest.raises(UserError, match="--relock"):
        snapshot_of(lock)
    lock.write_text("# bookworm 20261121T000000Z: packages\n")
    assert snapshot_of(lock) == "20261121T000000Z"


def test_too_little_space_is_found_before_anything_is_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module.shutil, "disk_usage", lambda _: type("Usage", (), {"free": 1e9})())
    with pytest.raises(UserError, match=r"has 1.0 GB free and the build needs 20; set APPTAINER_TMPDIR"):
        module._space(tmp_path, 20)


def test_definitions_name_no_host_and_share_their_environment() -> None:
    texts = {name: image.definition.read_text("utf-8") for name, image in IMAGES.items()}
    for name, text in texts.items():
        assert "http" not in text
        assert f"clm-or-mlm.image {name}\n" in text
        for section in ("%labels", "%help", "%post", "%environment", "%runscript", "%test"):
            assert f"\n{section}\n" in text
        assert "--require-hashes" in text
    parts = [text.split("%environment")[1].split("%runscript")[0].replace(name, "")
             for name, text in texts.items()]  # fmt: skip
    assert parts[0] == parts[1]


def test_entries_of_a_lock_can_be_left_out() -> None:
    text = "# head\na-b==1 \\\n    --hash=sha256:00\n    # via c\n"
    text += "c[x]==2 ; python_version < '4' \\\n    --hash=sha256:11\n"
    assert without(text, {"a-b"}) == "# head\nc[x]==2 ; python_version < '4' \\\n    --hash=sha256:11\n"
    assert without(text, {"c"}) == "# head\na-b==1 \\\n    --hash=sha256:00\n    # via c"
    assert without(text, set()) == text


def test_images_are_packed_by_zstd_where_apptainer_can() -> None:
    assert squashfs_options("zstd", (1, 4))[0] == "--mksquashfs-args"
    assert squashfs_options("zstd", (1, 2)) == []
    assert squashfs_options("gzip", (1, 4)) == []
    with pytest.raises(UserError, match="unknown compression 'ztsd'; did you mean 'zstd'"):
        squashfs_options("ztsd", (1, 4))


def test_wheels_of_sources_are_built_once_for_a_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[list[str]] = []

    def fake(command: list[str], **_: object) -> object:
        calls.append(command)
        return type("Answer", (), {"returncode": 0})()

    monkeypatch.setattr(module.subprocess, "run", fake)
    wheels, built = tmp_path / "wheels", tmp_path / "built"
    wheels.mkdir()
    (wheels / "a_B-1.0.tar.gz").touch()
    for lock, number in (("one", 1), ("one", 1), ("two", 2)):
        (wheels / ".lock").write_text(lock)
        assert module._wheels_of_sources(wheels, built) == {"a-b"}
        assert len(calls) == number
