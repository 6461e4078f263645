"""What Slurm is asked for a job: the same words in the check before a start as in the submission."""

from dataclasses import replace
from pathlib import Path

import pytest

from container.check_lines import CheckLine
from tests.commands import program
from workflow.jobs import JOB_KINDS, Job, Workflow, by_marker
from workflow.slurm_checks import slurm
from workflow.slurm_queue import Queue
from workflow.slurm_request import no_room, request_of, sbatch_words
from workflow.slurm_submit import submit
from workflow.start import Start
from workflow.study_settings import JobOptions

BIG = Job(kind=JOB_KINDS["model"], name="m", nodes=2, gpus=4, cpus=16, memory_gb=100.0)
CLUSTER = Workflow(
    target="all", jobs=by_marker([BIG]), queues={"gpus": {"partition": "gpu"}}
)


def _checked(workflow: Workflow) -> list[CheckLine]:
    return list(slurm(Start(folder=Path(), workflow=workflow, profile="slurm")))


GENERIC = "Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)"


def _cluster(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    refused: str,
    down: str,
    said: str = "Requested node configuration is not available",
) -> None:
    """A Slurm that refuses what holds a pattern, and lists the nodes that are down."""
    monkeypatch.setenv("PATH", f"{folder / 'bin'}:/usr/bin:/bin")
    said = "\n".join(f"sbatch: error: {line}" for line in said.splitlines())
    program(
        folder / "bin/sbatch",
        f'case "$*" in {refused}) echo "{said}" >&2; exit 1;; esac',
    )
    for asked in ("squeue", "scontrol", "sacctmgr"):  # else this machine's answer
        program(folder / f"bin/{asked}", "")
    program(folder / "bin/sinfo", f"case \"$*\" in *-N*) printf '{down}';; esac")


SETTINGS = [
    ("*--gres=gpu:4*", "", "fail", "gpus_per_node, or gres"),
    ("*--nodes=2*", "", "fail", "correct nodes ("),
    ("*--mem*100000*", "", "fail", "memory_gb"),
    ("*--cpus-per-task=16*", "", "fail", "cpus"),
    ("*--partition=gpu*", "", "fail", "partition of [jobs.gpus]"),
    ("*--cpus-per-task=16*|*--gres=gpu:4*", "", "fail", "[jobs.gpus], gpus_per_node, "),
    ("*", "", "fail", "[jobs.gpus], gpus_per_node, nodes or cpus"),
    ("*--mem*100000*|*--partition=gpu*", "", "fail", "[jobs.gpus], gpus_per_node, "),
    # Nodes that are down are a warning, unless another setting is wrong.
    ("*--nodes=2*", "n1", "warn", "while n1 are down"),
    ("*", "n1", "warn", "while n1 are down"),
    ("*--mem*", "n1", "fail", "memory_gb"),
    ("none", "", "ok", "--partition=gpu"),
]


@pytest.mark.parametrize(("refused", "down", "status", "said"), SETTINGS)
def test_the_setting_that_is_wrong_is_named(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    refused: str,
    down: str,
    status: str,
    said: str,
) -> None:
    _cluster(tmp_path, monkeypatch, refused, down)
    (line,) = _checked(CLUSTER)
    assert line.status == status and said in line.sentence and "\n" not in line.sentence


@pytest.mark.parametrize(
    ("refused", "said", "queue", "words"),
    [
        ("*--account=other*", "Invalid account", {"account": "other"}, "correct account ("),
        ("*", "Invalid account or account/partition combination", {}, "correct account, [jobs.gpus], "),
        ("*--qos=dev*", "Invalid qos specification", {"qos": "dev"}, "correct qos of [jobs.gpus]"),
        ("*--time=30*", f"QOSMaxWallDurationPerJobLimit\n{GENERIC}", {}, "limit_hours, or hours of [jobs.gpus]"),
        ("*--constraint=a100*", "Invalid feature", {"constraint": "a100"}, "correct constraint of [jobs.gpus]"),
        ("*--reserv*", "Requested reservation is invalid", {"slurm_extra": "--reservation=x"}, "correct slurm_extra"),
    ],
)  # fmt: skip
def test_the_wrong_key_of_a_queue_is_named(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    refused: str,
    said: str,
    queue: dict[str, str],
    words: str,
) -> None:
    _cluster(tmp_path, monkeypatch, refused, "", said)
    (line,) = _checked(replace(CLUSTER, queues={"gpus": queue}))
    assert line.status == "fail" and words in line.sentence


@pytest.mark.parametrize("gres", ["gpu:a100", "shard", "gpu:1g.10gb"])
def test_a_gpu_by_a_name_that_the_site_lacks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gres: str
) -> None:
    _cluster(
        tmp_path,
        monkeypatch,
        f"*--gres={gres}:4*",
        "",
        "Invalid generic resource (gres) specification",
    )
    (line,) = _checked(replace(CLUSTER, gres=gres))
    assert "correct gpus_per_node, or gres (" in line.sentence


@pytest.mark.parametrize(
    ("refused", "said", "status", "words"),
    [
        (
            "*",
            f"QOSMaxSubmitJobPerUserLimit\n{GENERIC}",
            "warn",
            "no more gpus jobs of yours now",
        ),
        ("*", f"AssocGrpSubmitJobsLimit\n{GENERIC}", "warn", "waits until it does"),
        ("*", GENERIC, "warn", "waits until it does"),
        ("*--nodes=2*", GENERIC, "fail", "correct nodes ("),
        (
            "*--nodes=2*",
            f"QOSMaxNodePerUserLimit\n{GENERIC}",
            "fail",
            "correct nodes (",
        ),
    ],
)
def test_a_full_queue_is_no_wrong_setting(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    refused: str,
    said: str,
    status: str,
    words: str,
) -> None:
    _cluster(tmp_path, monkeypatch, refused, "", said)
    (line,) = _checked(CLUSTER)
    assert (
        line.status == status and words in line.sentence and "\n" not in line.sentence
    )


@pytest.mark.parametrize(
    ("said", "full"),
    [
        (f"QOSMaxSubmitJobPerUserLimit\nsbatch: error: {GENERIC}", True),
        (f"Batch job submission failed: {GENERIC}", True),
        (
            f"QOSMaxCpuPerUserLimit\nsbatch: error: Batch job submission failed: {GENERIC}",
            False,
        ),
        ("Invalid account", False),
    ],
)
def test_only_a_full_queue_is_waited_for(said: str, full: bool) -> None:
    assert no_room(said) is full


@pytest.mark.parametrize(
    ("limits", "status"),
    [
        ("00:10:00 02:00:00", "ok"),
        ("00:10:00 UNLIMITED", "ok"),
        ("00:10:00 00:20:00", "fail"),
    ],
)
def test_of_several_partitions_one_that_is_long_enough_suffices(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limits: str, status: str
) -> None:
    _cluster(tmp_path, monkeypatch, "none", "")
    rows = zip("ab", limits.split(), strict=True)
    said = [f"echo PartitionName={name} MaxTime={limit}" for name, limit in rows]
    program(tmp_path / "bin/scontrol", "\n".join(said))
    (line,) = _checked(replace(CLUSTER, queues={"gpus": {"partition": "a,b"}}))
    assert line.status == status


@pytest.mark.parametrize(
    ("partitions", "account", "said"),
    [
        ("a", "abc", "partition a takes no jobs of account abc"),
        ("a", "staff", ""),
        ("a", "", "partition a takes no jobs of account mine"),
        ("a,b", "abc", ""),
        ("c", "abc", "partition c takes no jobs of account abc"),
        ("c", "staff", ""),
    ],
)
def test_accounts_that_a_partition_takes_are_read(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    partitions: str,
    account: str,
    said: str,
) -> None:
    _cluster(tmp_path, monkeypatch, "none", "")
    rows = (
        "PartitionName=a AllowAccounts=staff,x MaxTime=UNLIMITED",
        "PartitionName=b AllowAccounts=ALL MaxTime=UNLIMITED",
        "PartitionName=c AllowAccounts=ALL DenyAccounts=abc MaxTime=UNLIMITED",
    )
    program(tmp_path / "bin/scontrol", "\n".join(f"echo {row}" for row in rows))
    program(tmp_path / "bin/sacctmgr", "echo mine")
    queue = {"partition": partitions} | ({"account": account} if account else {})
    (line,) = _checked(replace(CLUSTER, queues={"gpus": queue}))
    assert line.status == ("fail" if said else "ok") and said in line.sentence


@pytest.mark.parametrize(
    ("user", "qos", "said"),
    [
        ("0:20:00|||", "|||", "30 min is more than MaxWall 0:20:00 of"),
        ("|||", "0:10:00|||", "30 min is more than MaxWall 0:10:00"),
        ("1-00:00:00|||", "2:00:00|||", ""),
        ("|||", "|cpu=32,gres/gpu=8,node=2|cpu=960|", ""),
        ("|cpu=31||", "|||", "32 is more than MaxTRES cpu=31 of"),
        ("|||", "|node=9,gres/gpu=4||", "8 is more than MaxTRES gres/gpu=4 of"),
        ("||gres/gpu=239|", "|||", "240 is more than MaxTRESMins gres/gpu=239"),
        ("|||cpu=959,billing=1", "|||", "960 is more than GrpTRESMins cpu=959"),
        ("|||", "", "2 is more than MaxTRES node=1"),
    ],
)
def test_limits_by_which_a_job_waits_for_ever_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, user: str, qos: str, said: str
) -> None:
    """Of 2 nodes with 16 cores and 4 GPUs for half an hour; last, by the quality of its partition alone."""
    _cluster(tmp_path, monkeypatch, "none", "")
    rows = f"'abc|abc||{user}';; *) printf 'normal|{qos or '|||'}\\nother|0:01:00|||\\npart||node=1||\\n'"
    program(tmp_path / "bin/sacctmgr", f'case "$*" in *withassoc*) echo {rows};; esac')
    program(
        tmp_path / "bin/scontrol",
        f"echo PartitionName=gpu QoS={'N/A' if qos else 'part'}",
    )
    (line,) = _checked(CLUSTER)
    assert line.status == ("warn" if said else "ok") and said in line.sentence


@pytest.mark.parametrize("name", ["SBATCH_ACCOUNT", "SBATCH_PARTITION", "SBATCH_QOS"])
def test_a_wrong_variable_of_sbatch_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    for variable in ("SBATCH_ACCOUNT", "SBATCH_PARTITION", "SBATCH_QOS"):
        monkeypatch.setenv(variable, "x")
    _cluster(tmp_path, monkeypatch, "none", "")
    said = "echo 'sbatch: error: Invalid x' >&2; exit 1"
    program(tmp_path / "bin/sbatch", f'[ -z "${name}" ] || {{ {said}; }}')
    (line,) = _checked(replace(CLUSTER, queues={}))
    assert "(Invalid x)" in line.sentence
    assert f"correct {name} in your shell (" in line.sentence


def test_a_partition_by_variable_or_option_is_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _cluster(tmp_path, monkeypatch, "none", "")
    rows = "echo PartitionName=a MaxTime=UNLIMITED Default=YES; echo PartitionName=b MaxTime=00:10:00"
    program(tmp_path / "bin/scontrol", rows)
    workflow = replace(CLUSTER, queues={})
    assert _checked(workflow)[0].status == "ok"
    extra = replace(CLUSTER, queues={"gpus": {"slurm_extra": "--partition=b"}})
    assert "partition b allows no jobs longer" in _checked(extra)[0].sentence
    monkeypatch.setenv("SBATCH_PARTITION", "b")
    assert "partition b allows no jobs longer" in _checked(workflow)[0].sentence


def test_down_nodes_are_those_of_the_variables_partition(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _cluster(tmp_path, monkeypatch, "*", "")
    down = "case \"$*\" in *'--partition b'*) printf n1;; *-N*) printf 'n1\nn2';; esac"
    program(tmp_path / "bin/sinfo", down)
    monkeypatch.setenv("SBATCH_PARTITION", "b")
    (line,) = _checked(replace(CLUSTER, queues={}))
    assert line.status == "warn" and "while n1 are down" in line.sentence


@pytest.mark.parametrize(
    ("memory_gb", "extra", "word"),
    [(100.0, "", "--mem=100000M"), (0.0, "--mem-per-gpu=40G", "--mem-per-gpu=40G")],
)
def test_memory_is_asked_for_once(memory_gb: float, extra: str, word: str) -> None:
    job = replace(BIG, memory_gb=memory_gb)
    queues = {"gpus": JobOptions(slurm_extra=extra).options()}
    words = sbatch_words(request_of(replace(CLUSTER, queues=queues), job))
    assert [found for found in words if found.startswith("--mem")] == [word]


def test_a_machine_without_slurm_is_no_login_node(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PATH", "/no/such/folder")
    (line,) = _checked(CLUSTER)
    assert line.status == "fail" and "sbatch is not on PATH" in line.sentence


def test_a_slurm_that_does_not_answer_blames_no_setting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _cluster(tmp_path, monkeypatch, "*", "")
    program(tmp_path / "bin/sinfo", "echo Unable to contact slurm controller; exit 1")
    (line,) = _checked(CLUSTER)
    assert line.status == "fail" and "; is slurmctld up?" in line.sentence


QUEUE = {
    "partition": "gpu", "account": "abc@h100", "qos": "long", "constraint": "h100&big",
    "slurm_extra": "--exclusive '--reservation=of me'",
}  # fmt: skip
TRAINED = Job(
    kind=JOB_KINDS["model"], name="m", nodes=2, gpus=4, cpus=16, memory_gb=0.5, makes=("m",),
    checkpoints="stages/m/step-*", commands=(("train", "m"),),
)  # fmt: skip
TUNED = Job(
    kind=JOB_KINDS["model"],
    name="n",
    gpus=1,
    cpus=2,
    memory_gb=0.0,
    makes=("n",),
    limit_hours=2.0,
    gpu_hours=5.0,
)
TABLES = Job(kind=JOB_KINDS["analysis"], name="all", makes=("t",))


def _calls(path: Path) -> list[list[str]]:
    """Return the words of every call of a program that wrote them down, one a line."""
    return [call.split("\n")[:-1] for call in path.read_text().split("END\n")[:-1]]


def test_what_is_checked_is_what_is_submitted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A made-up sbatch writes down what it was asked for."""
    note = f"printf '%s\\n' \"$@\" END >> {tmp_path}"
    program(
        tmp_path / "bin/sbatch",
        f'case "$*" in *--test-only*) {note}/checked;; *) {note}/submitted; echo 7;; esac',
    )
    for name in ("squeue", "sinfo", "scontrol", "sacctmgr", "scancel"):
        program(tmp_path / f"bin/{name}", "")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    queues = {
        "gpus": QUEUE,
        "gpu": {"partition": "a,b", "account": "x"},
        "cpu": {"partition": "c"},
    }
    workflow = Workflow(
        target="all",
        jobs=by_marker([TRAINED, TUNED, TABLES]),
        queues=queues,
        gres="gpu:h100",
    )
    assert {line.status for line in _checked(workflow)} == {"ok"}
    # But --test-only and --wrap
    checked = [call[1:-1] for call in _calls(tmp_path / "checked")]
    submit(workflow, tmp_path, list(workflow.jobs), Queue())
    submitted = [call[call.index("--nodes=2" if "--nodes=2" in call else "--nodes=1") :]
                 for call in _calls(tmp_path / "submitted")
                 if "--comment=submits" not in call]  # fmt: skip
    assert sorted(submitted) == sorted(checked)
    gpus = next(call for call in checked if "--nodes=2" in call)
    for word in (
        "--ntasks-per-node=1",
        "--reservation=of me",
        "--gres=gpu:h100:4",
        "--constraint=h100&big",
    ):
        assert word in gpus
