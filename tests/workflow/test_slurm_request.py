"""What Slurm is asked for a job: the same words in the check before a study as in the submission."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.commands import program
from workflow.jobs import JOB_KINDS, Job, Workflow, by_marker
from workflow.slurm_queue import Queue as SlurmQueue
from workflow.slurm_request import check_requests, no_room
from workflow.slurm_submit import submit
from workflow.study_settings import Queue

BIG = Job(kind=JOB_KINDS["model"], name="m", nodes=2, gpus=4, cpus=16, memory_gb=100.0)
CLUSTER = Workflow(
    target="all", jobs=by_marker([BIG]), queues={"gpus": {"partition": "gpu"}}
)


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
    program(folder / "bin/squeue", "")
    program(folder / "bin/sinfo", f"case \"$*\" in *-N*) printf '{down}';; esac")


SETTINGS = [
    ("*--gres=gpu:4*", "", "fail", "gpus_per_node, or gres"),
    ("*--nodes=2*", "", "fail", "correct nodes in"),
    ("*--mem*100000*", "", "fail", "memory_gb"),
    ("*--cpus-per-task=16*", "", "fail", "cpus"),
    ("*--partition=gpu*", "", "fail", "partition of [jobs.gpus]"),
    ("*--cpus-per-task=16*|*--gres=gpu:4*", "", "fail", "correct gpus_per_node in"),
    ("*", "", "fail", "[jobs.gpus], nodes and cpus"),
    ("*--mem*100000*|*--partition=gpu*", "", "fail", "[jobs.gpus], nodes and cpus"),
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
    (line,) = check_requests(CLUSTER)
    assert line.status == status and said in line.sentence and "\n" not in line.sentence


@pytest.mark.parametrize(
    ("refused", "said", "queue", "words"),
    [
        ("*--account=other*", "Invalid account", {"account": "other"}, "correct account in"),
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
    (line,) = check_requests(replace(CLUSTER, queues={"gpus": queue}))
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
    (line,) = check_requests(replace(CLUSTER, gres=gres))
    assert "correct gpus_per_node, or gres in" in line.sentence


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
        ("*--nodes=2*", GENERIC, "fail", "correct nodes in"),
        (
            "*--nodes=2*",
            f"QOSMaxNodePerUserLimit\n{GENERIC}",
            "fail",
            "correct nodes in",
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
    (line,) = check_requests(CLUSTER)
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
    [("0:10 2:00:00", "ok"), ("0:10 infinite", "ok"), ("0:10 0:20", "fail")],
)
def test_of_several_partitions_one_that_is_long_enough_suffices(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limits: str, status: str
) -> None:
    _cluster(tmp_path, monkeypatch, "none", "")
    rows = zip("ab", limits.split(), strict=True)
    program(
        tmp_path / "bin/sinfo",
        "\n".join(f"echo '{name}|{name}|{limit}'" for name, limit in rows),
    )
    (line,) = check_requests(replace(CLUSTER, queues={"gpus": {"partition": "a,b"}}))
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
    program(
        tmp_path / "bin/sinfo", "printf 'a|a|infinite\nb|b|infinite\nc|c|infinite\n'"
    )
    allowed = "*a) echo AllowAccounts=staff,x;; *b) echo AllowAccounts=ALL;; *) echo AllowAccounts=ALL DenyAccounts=abc"
    program(tmp_path / "bin/scontrol", f'case "$*" in {allowed};; esac')
    program(tmp_path / "bin/sacctmgr", "echo mine")
    queue = {"partition": partitions} | ({"account": account} if account else {})
    (line,) = check_requests(replace(CLUSTER, queues={"gpus": queue}))
    assert line.status == ("fail" if said else "ok") and said in line.sentence


@pytest.mark.parametrize(
    ("user", "qos", "said"),
    [
        ("0:20:00", "", "is 0:20:00; set"),
        ("", "0:10:00", "is 0:10:00"),
        ("1-00:00:00", "2:00:00", ""),
        ("", "", ""),
    ],
)
def test_a_time_limit_by_which_slurm_lets_a_job_wait_for_ever_is_warned_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, user: str, qos: str, said: str
) -> None:
    _cluster(tmp_path, monkeypatch, "none", "")
    rows = f"'abc|abc||{user}';; *) printf 'normal|{qos}\\nother|0:01:00'"
    program(tmp_path / "bin/sacctmgr", f'case "$*" in *withassoc*) echo {rows};; esac')
    (line,) = check_requests(CLUSTER)
    assert line.status == ("warn" if said else "ok") and said in line.sentence


def test_variables_of_sbatch_are_used_as_they_are_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SBATCH_PARTITION", "halfhour")
    monkeypatch.setenv("SBATCH_ACCOUNT", "other")
    _cluster(tmp_path, monkeypatch, "*--account=other*", "")
    own = Queue(account="abc").options()
    assert own == {"partition": "halfhour", "account": "abc"}
    (line,) = check_requests(replace(CLUSTER, queues={"gpus": own}))
    assert line.status == "ok" and "--partition=halfhour --account=abc" in line.sentence
    (line,) = check_requests(replace(CLUSTER, queues={"gpus": Queue().options()}))
    assert "correct account (or SBATCH_ACCOUNT in your shell) in" in line.sentence
    monkeypatch.setenv("SBATCH_QOS", "dev")
    said = "echo 'sbatch: error: Invalid qos' >&2; exit 1"
    program(
        tmp_path / "bin/sbatch",
        f'[ -z "$SBATCH_ACCOUNT$SBATCH_PARTITION" ] || exit 1; [ -z "$SBATCH_QOS" ] || {{ {said}; }}',
    )
    (line,) = check_requests(replace(CLUSTER, queues={"gpus": own}))
    assert (
        "(Invalid qos)" in line.sentence
        and "correct SBATCH_QOS in your shell; " in line.sentence
    )


@pytest.mark.parametrize(
    ("queue", "word", "label"),
    [
        (
            Queue(memory_gb_per_gpu=40.0),
            "--mem-per-gpu=40000M",
            "memory_gb_per_gpu of [jobs.gpus]",
        ),
        (
            Queue(memory_gb_per_core=3.5),
            "--mem-per-cpu=3500M",
            "memory_gb_per_core of [jobs.gpus]",
        ),
        (Queue(), "--mem=100000M", "memory_gb in"),
    ],
)
def test_memory_is_asked_for_by_node_gpu_or_core(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, queue: Queue, word: str, label: str
) -> None:
    _cluster(tmp_path, monkeypatch, f'*"{word}"*', "")
    (line,) = check_requests(replace(CLUSTER, queues={"gpus": queue.options()}))
    assert f"correct {label}" in line.sentence and line.sentence.count("--mem") == 1


def test_a_machine_without_slurm_is_no_login_node(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PATH", "/no/such/folder")
    (line,) = check_requests(CLUSTER)
    assert line.status == "fail" and "sbatch is not on PATH" in line.sentence


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
    for name in ("squeue", "sinfo", "scontrol", "sacctmgr"):
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
    assert {line.status for line in check_requests(workflow)} == {"ok"}
    # But --test-only and --wrap
    checked = [call[1:-1] for call in _calls(tmp_path / "checked")]
    submit(workflow, tmp_path, list(workflow.jobs), SlurmQueue())
    submitted = [call[call.index("--nodes=2" if "--nodes=2" in call else "--nodes=1") :]
                 for call in _calls(tmp_path / "submitted")]  # fmt: skip
    assert sorted(submitted) == sorted(checked)
    gpus = next(call for call in checked if "--nodes=2" in call)
    for word in (
        "--ntasks-per-node=1",
        "--reservation=of me",
        "--gres=gpu:h100:4",
        "--constraint=h100&big",
    ):
        assert word in gpus
