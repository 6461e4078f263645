"""An OCI archive of an image, by the real Podman from what a made-up Apptainer unpacks, and its command."""

from __future__ import annotations

import json
import shutil
import subprocess
import tarfile
from pathlib import Path
from typing import Any

import pytest

from common.errors import UserError
from common.files import sha256_file
from common.manifest import write_manifest
from container import image as images
from container.image import Image, build_oci, record_of, verify

ANALYSIS = Image(name="analysis")

pytestmark = pytest.mark.skipif(shutil.which("podman") is None, reason="podman is not installed")

TIME = 1_700_000_000
UNPACKS = f"""#!/bin/sh
[ "$1" = --version ] && echo 1.4.5 && exit
own="$3/.singularity.d"
mkdir -p "$own/env" "$own/bootstrap_history" "$3/tmp"
echo 'export GREETING=hello' > "$own/env/90-environment.sh"
printf '#!/bin/sh\\nexec /bin/sh -c "echo $GREETING $*"\\n' > "$own/runscript"
touch -d @{TIME} "$own/runscript"
date +%N > "$own/bootstrap_history/Singularity0"
printf '{{"org.label-schema.build-date": "%s", "clm-or-mlm.image": "analysis"}}' "$(date +%N)" > "$own/labels.json"
"""


@pytest.fixture
def sif(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file in the place of analysis.sif with its record, an Apptainer that unpacks it, and a storage for Podman."""
    for name in ("bin", "build"):
        (tmp_path / name).mkdir()
    (tmp_path / "bin/apptainer").write_text(UNPACKS)
    (tmp_path / "bin/apptainer").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    storage = f'[storage]\ndriver = "vfs"\ngraphroot = "{tmp_path}/graph"\nrunroot = "{tmp_path}/run"\n'
    (tmp_path / "storage.conf").write_text(storage)
    monkeypatch.setenv("CONTAINERS_STORAGE_CONF", str(tmp_path / "storage.conf"))
    monkeypatch.setattr(images, "BUILD", tmp_path / "build")
    path, one = ANALYSIS.path, ANALYSIS
    path.write_bytes(b"image")
    locks = {"lock": sha256_file(one.requirements), "debian": {"lock": sha256_file(one.debian_lock)}}
    record = {"image": "analysis", "commit": "abc", **locks}
    write_manifest(record_of(path), record, {path.name: sha256_file(path)})
    return path


def _config(archive: Path) -> dict[str, Any]:
    with tarfile.open(archive) as tar:

        def read(digest: str) -> Any:
            member = tar.extractfile(f"./blobs/sha256/{digest.removeprefix('sha256:')}")
            assert member is not None
            return json.load(member)

        index = tar.extractfile("./index.json")
        assert index is not None
        manifest = read(json.load(index)["manifests"][0]["digest"])
        return dict(read(manifest["config"]["digest"]))


def test_the_same_image_gives_the_same_archive_with_its_command_labels_and_record(sif: Path) -> None:
    archive = build_oci(ANALYSIS)
    first = archive.read_bytes()
    config = _config(archive)
    assert config["created"] == "2023-11-14T22:13:20Z"
    assert config["config"]["Labels"]["clm-or-mlm.image"] == "analysis"
    assert not any("label-schema" in label for label in config["config"]["Labels"])
    assert config["config"]["Entrypoint"][0] == "/bin/sh"
    assert {line.status for line in verify(ANALYSIS, archive)} == {"ok", "warn"}
    assert build_oci(ANALYSIS).read_bytes() == first
    kept = subprocess.run(["podman", "images", "--all", "--quiet"], capture_output=True, text=True)
    assert (kept.returncode, kept.stdout) == (0, "")
    archive.write_bytes(first[:-1] + b"x")
    assert verify(ANALYSIS, archive)[0].status == "fail"


def test_a_damaged_image_and_a_podman_that_fails_are_one_sentence(sif: Path, tmp_path: Path) -> None:
    storage = (tmp_path / "storage.conf").read_text()
    (tmp_path / "storage.conf").write_text(storage.replace("vfs", "nosuch"))
    with pytest.raises(UserError, match=r"`.*podman build` exited with code 125: "):
        build_oci(ANALYSIS)
    sif.write_bytes(b"imagf")
    with pytest.raises(UserError, match=r"analysis.sif: .*build the image again"):
        build_oci(ANALYSIS)
    assert not (sif.parent / "analysis.tar").exists()
    assert [path.name for path in sif.parent.iterdir() if path.name.startswith(".")] == []


def test_the_definitions_environment_and_command_are_the_containers(sif: Path, tmp_path: Path) -> None:
    """A container is started where this machine lets Podman start one: its entry point alone is run elsewhere."""
    entry = _config(build_oci(ANALYSIS))["config"]["Entrypoint"]
    root = tmp_path / "root"
    subprocess.run([str(tmp_path / "bin/apptainer"), "build", "--sandbox", str(root)], check=True)
    words = [word.replace("/.singularity.d", f"{root}/.singularity.d") for word in entry]
    done = subprocess.run([*words, "world", "again"], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "hello world again\n"), done.stderr
