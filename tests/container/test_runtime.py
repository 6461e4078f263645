"""Apptainer, on a made-up program: one that answers, hangs, fails; and the line for a command in an image."""

import os
from pathlib import Path

import pytest

from clm_or_mlm.__main__ import main
from common.errors import UserError
from container.machine import Machine
from container.runtime import (
    check_name,
    command_in,
    identity_of,
    launch,
    stream,
    version_of,
)
from tests.commands import program
from workflow import doctor
from workflow.start import Start


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only folder with an `apptainer` on PATH, which echoes its words but for `--version`."""
    version = '[ "$1" = --version ] && echo apptainer version 1.4.5 && exit\n'
    program(
        tmp_path / "bin/apptainer",
        f'{version}echo "$@"\n[ "$1" = build ] && exit 7\nexit 0',
    )
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}/usr/bin:/bin")
    return tmp_path / "bin"


def test_one_that_answers_is_named_and_its_output_comes_as_lines(folder: Path) -> None:
    assert version_of(Machine()) == (
        str(folder / "apptainer"),
        "apptainer version 1.4.5",
    )
    assert "".join(stream(["test", "x.sif"])).strip() == "test x.sif"
    with pytest.raises(UserError, match="apptainer build exited with code 7"):
        list(stream(["build", "x.sif"]))


def test_one_that_hangs_fails_or_is_missing_is_one_sentence(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(folder / "apptainer", "sleep 600 & wait")
    with pytest.raises(
        UserError, match=r"code 124 \(no answer within 1 s\), so no image can run here"
    ):
        version_of(Machine(), 1.0)
    monkeypatch.setattr(doctor, "version_of", lambda site: version_of(site, 1.0))
    line = next(doctor.apptainer(Start(folder=Path())))
    assert line.status == "fail" and "user namespaces" in line.sentence
    program(folder / "apptainer", "echo starter: permission denied; exit 13")
    with pytest.raises(
        UserError, match=r"exited with code 13 \(starter: permission denied\)"
    ):
        version_of(Machine())
    with pytest.raises(
        UserError, match=r"apptainer is not on PATH; load your site's module"
    ):
        version_of(Machine(environ={"PATH": str(folder.parent)}))


@pytest.mark.parametrize(
    "words", [("container", "run", "x.sif", "claims"), ("test", "analysis")]
)
def test_every_command_says_it_in_one_sentence(
    folder: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    program(folder / "apptainer", "sleep 600 & wait")
    # The image has to seem to be there, and the limit is the real one but for its length.
    for name in ("x.sif", "analysis.sif"):
        (folder / name).touch()
    monkeypatch.chdir(folder)
    monkeypatch.setattr("container.image.BUILD", folder)
    monkeypatch.setattr(version_of, "__defaults__", (1.0,))
    with pytest.raises(UserError, match="no answer within 1 s") as found:
        main(words)
    assert "\n" not in str(found.value)


def test_variables_of_devices_and_jobs_come_in_and_no_others(
    tmp_path: Path,
) -> None:
    given = {
        "SLURM_JOB_ID": "7",
        "CUDA_VISIBLE_DEVICES": "0,1",
        "MASTER_ADDR": "node1",
        "HF_HUB_OFFLINE": "1",
    }
    given["CLM_OR_MLM_SCRATCH"] = str(tmp_path)
    users = dict.fromkeys(
        ("PYTHONPATH", "LD_LIBRARY_PATH", "HOME", "AWS_SECRET_ACCESS_KEY"), "/home/me"
    )
    site = Machine(environ=given | users, root=tmp_path)
    _, found = command_in(Path("x.sif"), ["claims", "--help"], site)
    families = ("APPTAINERENV", "SINGULARITYENV")
    assert set(found) == {f"{family}_{key}" for family in families for key in given}
    secrets = dict.fromkeys(("HF_TOKEN", "WANDB_API_KEY", "OTHER_TOKEN"), "secret")
    for named, passed in (
        ("", []),
        ("HF_TOKEN OTHER_TOKEN", ["HF_TOKEN", "OTHER_TOKEN"]),
    ):
        site = Machine(
            environ=given | secrets | {"CLM_OR_MLM_PASS": named}, root=tmp_path
        )
        _, found = command_in(Path("x.sif"), ["claims"], site)
        assert [key for key in secrets if f"APPTAINERENV_{key}" in found] == passed
    assert {found[f"{family}_CUDA_VISIBLE_DEVICES"] for family in families} == {"0,1"}


def test_the_line_binds_the_folder_and_the_scratch_and_no_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    site = Machine(environ={"CLM_OR_MLM_SCRATCH": str(tmp_path / "s")}, root=tmp_path)
    text = " ".join(command_in(Path("x.sif"), ["claims", "--help"], site, ["/data"])[0])
    assert text.startswith(f"run --no-home --cleanenv --pwd {tmp_path} --bind")
    assert (
        f"--bind {tmp_path} --bind {tmp_path / 's'} --bind /data x.sif claims --help"
        in text
    )


@pytest.mark.parametrize(
    ("device", "option"), [("nvidiactl", "--nv"), ("kfd", "--rocm")]
)
def test_the_driver_comes_in_where_there_is_a_gpu(
    tmp_path: Path, device: str, option: str
) -> None:
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev" / device).touch()

    def line(**more: str) -> list[str]:
        site = Machine(
            environ={"CLM_OR_MLM_SCRATCH": str(tmp_path), **more}, root=tmp_path
        )
        return command_in(Path("x.sif"), [], site)[0]

    assert option in line()
    assert option not in line(CLM_OR_MLM_GPU="none")
    with pytest.raises(UserError, match="must be auto, nvidia, rocm or none"):
        line(CLM_OR_MLM_GPU="nvdia")


@pytest.mark.skipif(os.getuid() != 0, reason="the folder has to belong to root")
def test_libraries_for_older_drivers_are_shown(tmp_path: Path) -> None:
    for name in ("dev/nvidiactl", "compat/libcuda.so.1"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).touch()
    folder = str(tmp_path / "compat")
    environ = {"CLM_OR_MLM_SCRATCH": str(tmp_path), "CLM_OR_MLM_CUDA_COMPAT": folder}
    line, found = command_in(Path("x.sif"), [], Machine(environ=environ, root=tmp_path))
    assert (
        line[line.index(folder) - 1] == "--bind"
        and found["APPTAINERENV_CLM_OR_MLM_CUDA_COMPAT"] == folder
    )


def test_a_missing_image_says_how_to_build_it(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="clm-or-mlm build full"):
        launch(tmp_path / "full.sif", [])


def test_an_image_says_its_name_and_commit_or_one_sentence(
    folder: Path,
) -> None:
    (folder / "x.sif").touch()
    environ = os.environ | {
        "CLM_OR_MLM_SCRATCH": str(folder),
        "PATH": f"{folder}:/usr/bin:/bin",
    }
    machine = Machine(environ=environ)
    version = '[ "$1" = --version ] && echo 3.8.4 && exit'
    program(
        folder / "apptainer", f"{version}; echo 'INFO: mounting'; echo full abc-dirty"
    )
    assert identity_of(folder / "x.sif", machine=machine) == ("full", "abc-dirty")
    for answers, said in (
        ("echo no zstd >&2; exit 255", r"\(255: no zstd\)"),
        ("echo hello", "an image of"),
    ):
        program(folder / "apptainer", f"{version}; {answers}")
        with pytest.raises(UserError, match=f"x.sif cannot be started here .*{said}"):
            identity_of(folder / "x.sif", machine=machine)
    with pytest.raises(
        UserError,
        match=r"x.tar is not named like an image file; such names end in .sif",
    ):
        check_name(folder / "x.tar")


SPYTHON = """
import subprocess
class Client:
    @staticmethod
    def version():
        return subprocess.run(["singularity", "--version"], capture_output=True, text=True).stdout.strip()
    @staticmethod
    def execute(image, command, options, environ, return_result):
        line = ["singularity", "exec", *options, image, *command]
        done = subprocess.run(line, env=environ, capture_output=True, text=True)
        return {"message": [done.stdout, done.stderr], "return_code": done.returncode}
"""
"""Spython's calls as this package makes them; the real one is tried by hand (docs/hpc.md)."""


@pytest.mark.parametrize("name", ["apptainer", "singularity-ce"])
def test_spython_asks_where_singularity_is_an_apptainer(
    folder: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    (folder / "spython").mkdir()
    (folder / "spython/main.py").write_text(SPYTHON)
    monkeypatch.setenv("PYTHONPATH", str(folder))
    monkeypatch.setenv("CLM_OR_MLM_SCRATCH", str(folder))
    (folder / "x.sif").touch()
    seen = f'echo "$@" >> {folder}/seen; echo "$APPTAINERENV_CLM_OR_MLM_SCRATCH" >> {folder}/seen'
    for one in ("apptainer", "singularity"):
        version = f'[ "$1" = --version ] && echo {name} version 1.4.5 && exit'
        program(
            folder / one, f"{version}\n{seen}\necho 'INFO: mounting' >&2; echo full abc"
        )
    assert version_of(Machine())[1] == f"{name} version 1.4.5"
    assert identity_of(folder / "x.sif") == ("full", "abc")
    line, scratch = (folder / "seen").read_text().splitlines()
    how = "exec" if name == "apptainer" else "run"  # by spython, or by its own
    assert line.startswith(f"{how} --no-home --cleanenv --pwd ") and line.endswith(
        " identity"
    )
    assert scratch == str(folder)
