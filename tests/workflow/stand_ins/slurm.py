"""A Slurm of one's own for tests: a controller, two nodes with two stand-in GPUs each, and accounting.

It listens on ports of its own and keeps all files in one folder, so that it disturbs no other Slurm of the machine.
`SLURM_CONF` names it to every command of Slurm.
"""

import contextlib
import getpass
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

PROGRAMS = ("slurmctld", "slurmd", "munged")
ACCOUNTING = ("slurmdbd", "mariadbd", "mariadb-install-db")
"""What its accounting takes more; without them it is a site that has none."""
NODES = ("east", "west")


def _missing(programs: tuple[str, ...]) -> str:
    return ", ".join(name for name in programs if shutil.which(name) is None)


def why_not() -> str | None:
    """Return why no Slurm of one's own can be started here, or None."""
    if missing := _missing(PROGRAMS):
        return f"{missing} not installed"
    if os.geteuid():
        return "starting a Slurm of one's own takes root"
    # The socket alone may be that of a munged that was killed.
    return (
        "munged does not run"
        if subprocess.run(["munge", "-n"], capture_output=True).returncode
        else None
    )


NEEDS_SLURM = [
    pytest.mark.slow,
    pytest.mark.slurm,
    pytest.mark.timeout(1200),
    pytest.mark.skipif(why_not() is not None, reason=str(why_not())),
]
"""Marks of tests that start one."""

NEEDS_ACCOUNTING = pytest.mark.skipif(
    _missing(ACCOUNTING) != "", reason=f"{_missing(ACCOUNTING)} not installed"
)
"""Mark of tests of accounts, qualities of service and their limits."""


def _port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


@dataclass(frozen=True)
class PrivateSlurm:
    """A running cluster."""

    folder: Path
    """Everything it writes."""

    @property
    def environ(self) -> dict[str, str]:
        """The environment in which Slurm's commands speak to it."""
        return {**os.environ, "SLURM_CONF": str(self.folder / "etc" / "slurm.conf")}

    def output(self, *command: str) -> str:
        """Return what a command prints."""
        answer = subprocess.run(
            command, env=self.environ, capture_output=True, text=True
        )
        assert answer.returncode == 0, f"{command}: {answer.stdout}{answer.stderr}"
        return answer.stdout

    def jobs(self) -> list[dict[str, str]]:
        """Return what `scontrol show job` says of every job that it remembers."""
        text = self.output("scontrol", "--oneliner", "show", "jobs")
        rows = [line.split() for line in text.splitlines() if line.startswith("JobId=")]
        return [dict(word.split("=", 1) for word in row if "=" in word) for row in rows]

    def clear(self) -> None:
        """End all jobs, such as those of a test that has failed: they would take places from the next one's."""
        self.output("scancel", "--user", getpass.getuser())
        _until(lambda: not self.output("squeue", "-h").strip())


_CONF = """\
ClusterName=private
SlurmctldHost={host}({address})
SlurmctldPort={controller}
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmdSpoolDir={folder}/spool-%n
StateSaveLocation={folder}/state
SlurmUser=root
MpiDefault=none
AuthInfo=cred_expire=20
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
ReturnToService=2
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
PriorityType=priority/basic
SchedulerParameters=batch_sched_delay=1,sched_interval=2,requeue_delay=1
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
JobRequeue=1
MinJobAge={min_job_age}
KillWait=5
{storage}JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=2
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
GresTypes=gpu
SlurmdParameters=config_overrides
NodeName=DEFAULT CPUs=8 RealMemory=16000 Gres=gpu:h100:2 Feature=h100,MI250,GENOA
NodeName=east NodeHostname={host} NodeAddr={east_address} Port={east}
NodeName=west NodeHostname={host} NodeAddr={west_address} Port={west}
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP PriorityTier=1{qos}
PartitionName=cpu Nodes=ALL MaxTime=600 State=UP PriorityTier=1
PartitionName=gpu Nodes=ALL MaxTime=600 State=UP PriorityTier=1
PartitionName=cpu_p1 Nodes=ALL MaxTime=6000 State=UP PriorityTier=1
PartitionName=small Nodes=ALL MaxTime=4320 State=UP PriorityTier=1
PartitionName=small-g Nodes=ALL MaxTime=4320 State=UP PriorityTier=1
PartitionName=standard-g Nodes=ALL MaxTime=2880 State=UP PriorityTier=1
PartitionName=urgent Nodes=ALL MaxTime=600 State=UP PriorityTier=9
"""

_STORAGE = """\
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=127.0.0.1
AccountingStoragePort={accounting}
AccountingStorageEnforce=associations,qos,limits
AccountingStoreFlags=job_comment
"""

_ACCOUNTING = """\
AuthType=auth/munge
DbdHost=localhost
DbdPort={accounting}
SlurmUser=root
PidFile={folder}/slurmdbd.pid
LogFile={folder}/slurmdbd.log
StorageType=accounting_storage/mysql
StorageHost=127.0.0.1
StoragePort={database}
StorageUser=slurm
StoragePass=slurm
StorageLoc=slurm_acct_db
"""


@contextlib.contextmanager
def private_slurm(
    folder: Path,
    *,
    networks: bool = False,
    min_job_age: int = 7200,
    accounting: bool = not _missing(ACCOUNTING),
) -> Iterator[PrivateSlurm]:
    """Start a cluster in a folder and end it with the block.

    With `networks` each node has a network of its own, with an interface `eth0`, and knows the other by its name.
    A job that is put back waits for twenty seconds in place of two minutes (`cred_expire`).
    `min_job_age` are the seconds after which the controller forgets a job that has ended; without `accounting` nothing
    else remembers it, and nobody has limits.

    Two nodes are `east` and `west`, with two stand-ins for GPUs (`gpu:h100`) and the feature `h100` each; partitions
    are `main`, `cpu`, `gpu` and `urgent`, which preempts; accounts are `abc`, `abc@cpu` and `abc@h100`, qualities of
    service `normal`, `short` and `long`. Partitions, features and qualities that the site profiles name are there too.
    """
    ports = {name: _port() for name in ("controller", "accounting", "database", *NODES)}
    addresses = _ADDRESSES if networks else dict.fromkeys(_ADDRESSES, "127.0.0.1")
    values = {
        "folder": folder,
        "host": socket.gethostname().split(".")[0],
        **ports,
        **addresses,
    }
    storage = _STORAGE.format(**values) if accounting else ""
    values |= {"min_job_age": min_job_age, "storage": storage}
    values |= {"qos": " QOS=of-partition" if accounting else ""}
    (folder / "state").mkdir(parents=True)
    (folder / "etc").mkdir()
    (folder / "etc" / "slurm.conf").write_text(_CONF.format(**values))
    (folder / "etc" / "gres.conf").write_text(
        "AutoDetect=off\nName=gpu Type=h100 File=/dev/tty[1-2]\n"
    )
    (folder / "etc" / "slurmdbd.conf").write_text(_ACCOUNTING.format(**values))
    (folder / "etc" / "slurmdbd.conf").chmod(0o600)
    names = "".join(f"{addresses[f'{node}_address']} {node}\n" for node in NODES)
    (folder / "hosts").write_text(
        Path("/etc/hosts").read_text() + (names if networks else "")
    )
    slurm = PrivateSlurm(folder)
    with contextlib.ExitStack() as stack:
        if networks:
            _networks(stack)
        if accounting:
            _account(stack, slurm, ports["database"])
        _start(stack, slurm, "slurmctld", "-D")
        for node in NODES:
            # Jobs see this cluster at Slurm's usual place too.
            inside = ["unshare", "--mount"]
            ready = f"mount --bind {folder}/etc /etc/slurm && mount --bind {folder}/hosts /etc/hosts"
            if networks:
                # torchrun's processes find the one that the others meet at by its name.
                inside = [
                    "nsenter",
                    f"--net=/run/netns/{_PREFIX}{node}",
                    *inside,
                    "--uts",
                ]
                ready += f" && hostname {node}"
            _start(
                stack,
                slurm,
                *inside,
                "sh",
                "-c",
                f"{ready} && exec slurmd -D -N {node}",
            )
        _until(
            lambda: (
                slurm.output(
                    "sinfo", "-h", "-t", "idle", "-p", "main", "-o", "%D"
                ).strip()
                == "2"
            )
        )
        yield slurm
        slurm.clear()


def _account(stack: contextlib.ExitStack, slurm: PrivateSlurm, port: int) -> None:
    """Start the accounting, with accounts and qualities of service."""
    _database(stack, slurm.folder, port)
    _start(stack, slurm, "slurmdbd", "-D")
    _until(lambda: slurm.output("sacctmgr", "-n", "list", "cluster") is not None)
    manage = ("sacctmgr", "-i")
    slurm.output(*manage, "add", "cluster", "private")
    for name in ("short", "long", "qos_gpu_h100-t3", "of-partition"):
        slurm.output(*manage, "add", "qos", name)
    for name in ("abc@cpu", "abc@h100", "abc"):
        slurm.output(*manage, "add", "account", name)
        words = (
            f"account={name}",
            "qos=normal,short,long,qos_gpu_h100-t3",
            "defaultqos=normal",
        )
        slurm.output(*manage, "add", "user", getpass.getuser(), *words)


_PREFIX = "clm-"
_ADDRESSES = {
    "address": "10.213.7.254",
    "east_address": "10.213.7.1",
    "west_address": "10.213.7.2",
}
"""Of the controller, and of the nodes, where each has a network of its own."""


def _networks(stack: contextlib.ExitStack) -> None:
    """Make a network for each node, and a bridge between them and this machine."""

    def ip(*words: str) -> None:
        subprocess.run(["ip", *words], check=True, capture_output=True)

    def undo(*words: str) -> None:
        subprocess.run(["ip", *words], capture_output=True)

    bridge = f"{_PREFIX}bridge"
    ip("link", "add", bridge, "type", "bridge")
    stack.callback(undo, "link", "del", bridge)
    ip("addr", "add", f"{_ADDRESSES['address']}/24", "dev", bridge)
    ip("link", "set", bridge, "up")
    for node in NODES:
        name = f"{_PREFIX}{node}"
        ip("netns", "add", name)
        stack.callback(undo, "netns", "del", name)
        ip("link", "add", name, "type", "veth", "peer", "name", "eth0", "netns", name)
        ip("link", "set", name, "master", bridge, "up")
        ip(
            "-n",
            name,
            "addr",
            "add",
            f"{_ADDRESSES[f'{node}_address']}/24",
            "dev",
            "eth0",
        )
        for device in ("eth0", "lo"):
            ip("-n", name, "link", "set", device, "up")


def _until(done: object, seconds: float = 60) -> None:
    assert callable(done)
    end = time.monotonic() + seconds
    while True:
        try:
            if done():
                return
        except AssertionError:
            if time.monotonic() > end:
                raise
        assert time.monotonic() < end, "no answer in time"
        time.sleep(0.3)


def _start(stack: contextlib.ExitStack, slurm: PrivateSlurm, *command: str) -> None:
    sink = (
        slurm.folder / f"{command[0]}-{len(list(slurm.folder.iterdir()))}.out"
    ).open("wb")
    process = subprocess.Popen(command, env=slurm.environ, stdout=sink, stderr=sink)
    sink.close()
    stack.callback(_end, process)


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(15)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _database(stack: contextlib.ExitStack, folder: Path, port: int) -> None:
    data, socket_file = folder / "database", folder / "database.sock"
    words = ["--no-defaults", f"--datadir={data}"]
    answer = subprocess.run(
        [
            "mariadb-install-db",
            *words,
            "--skip-test-db",
            "--auth-root-authentication-method=normal",
        ],
        capture_output=True,
        text=True,
    )
    assert answer.returncode == 0, answer.stdout + answer.stderr
    words += [
        "--user=root",
        f"--socket={socket_file}",
        "--bind-address=127.0.0.1",
        f"--port={port}",
    ]
    process = subprocess.Popen(
        ["mariadbd", *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    stack.callback(_end, process)
    _until(socket_file.exists)
    sql = (
        "CREATE DATABASE slurm_acct_db; CREATE USER 'slurm'@'%' IDENTIFIED BY 'slurm'; "
        "GRANT ALL ON slurm_acct_db.* TO 'slurm'@'%'; "
        "CREATE USER 'slurm'@'localhost' IDENTIFIED BY 'slurm'; "
        "GRANT ALL ON slurm_acct_db.* TO 'slurm'@'localhost';"
    )
    command = [
        "mariadb",
        "--no-defaults",
        f"--socket={socket_file}",
        "-u",
        "root",
        "-e",
        sql,
    ]
    subprocess.run(command, check=True, capture_output=True)
