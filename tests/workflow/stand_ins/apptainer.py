"""Plays Apptainer and what runs in an image: commands that take seconds, and write down each thing that they do.

    apptainer run ... IMAGE torch.distributed.run ... -m clm_or_mlm train NAME ... --stop-file FILE
    apptainer run ... IMAGE benchmarks run --name NAME ... --workers N
    apptainer run ... IMAGE make PATH

Training makes a step in STAND_IN_SECONDS (1), a checkpoint each two and STAND_IN_STEPS in all; a run takes as long.
With STAND_IN_STARTS it goes on until it is stopped, and two steps in the last of so many starts.
With STAND_IN_STARTS it ends in the last of so many starts, however far it has come.
Lines of the file STAND_IN_EVENTS, `events` without it, say what was begun and what was finished, by which Slurm job.
"""

import os
import sys
import threading
import time
from pathlib import Path

CONTENT = "x" * 10_000
STEPS, SECONDS = (
    int(os.environ.get("STAND_IN_STEPS", "24")),
    float(os.environ.get("STAND_IN_SECONDS", "1")),
)


STARTS = os.environ.get("STAND_IN_STARTS", "")
EVENTS = Path(os.environ.get("STAND_IN_EVENTS", "events"))


def note(*words: object) -> None:
    line = " ".join(map(str, (*words, os.environ.get("SLURM_JOB_ID", "here")))) + "\n"
    with EVENTS.open("a") as file:
        file.write(line)


def make(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}")
    temporary.write_text(CONTENT)
    temporary.replace(path)


def train(words: list[str]) -> int:
    name, stop = (
        words[words.index("train") + 1],
        Path(words[words.index("--stop-file") + 1]),
    )
    folder = Path("pretraining/stages") / name
    steps = max((int(path.name[5:]) for path in folder.glob("step-*")), default=0)
    note("resume", name, steps)
    last = STEPS
    if STARTS:
        starts = EVENTS.read_text().count(f"resume {name} ")
        last = steps + 2 if starts == int(STARTS) else sys.maxsize
    while steps < last:
        time.sleep(SECONDS)
        steps += 1
        note("step", name, steps)
        asked = stop.exists()
        if asked or steps % 2 == 0:
            make(folder / f"step-{steps:08}" / "state.json")
        if asked:
            return 75
    make(folder / "done")
    return 0


def tune(words: list[str]) -> int:
    name, workers = (
        words[words.index("--name") + 1],
        int(words[words.index("--workers") + 1]),
    )
    runs = [f"{name}/{number}" for number in range(8)]
    todo = [run for run in runs if not Path("results", run).is_file()]
    lock = threading.Lock()
    failed: list[OSError] = []

    def work() -> None:
        while True:
            with lock:
                if not todo or failed:
                    return
                run = todo.pop(0)
                note("begin", run)
            time.sleep(SECONDS)
            try:
                make(Path("results", run))
            except OSError as error:
                failed.append(error)
                return
            with lock:
                note("finish", run)

    threads = [threading.Thread(target=work, daemon=True) for _ in range(workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        sys.stderr.write(f"error: {failed[0]}\n")
    return 1 if failed else 0


def main() -> int:
    if sys.argv[1] == "--version":
        sys.stdout.write("apptainer version 1.4.5\n")
        return 0
    words = sys.argv[
        next(at for at, word in enumerate(sys.argv) if word.endswith(".sif")) + 1 :
    ]
    if "train" in words:
        return train(words)
    if words[0] == "benchmarks":
        return tune(words)
    note("make", words[1])
    make(Path(words[1]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
