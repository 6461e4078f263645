"""The libraries of the paper's fine-tunings, in a folder of their own and in processes of their own.

`requirements/oracle.txt` holds sentence-transformers 3.4.1, its transformers and what they need; torch and NumPy are
those of the environment that runs the tests. The folder is made once for a lock. The tests ask for the fixture
`oracle`; `python -m tests.oracle` only makes the folder.
"""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from common.locks import wait_for_lock
from common.provenance import ROOT

LOCK = ROOT / "requirements" / "oracle.txt"
VALIDATORS = ROOT / "requirements" / "validators.txt"
"""The validator of SBOMs, which is not ours and clashes with the full environment."""

_START = """
import json, pathlib
given = json.loads(pathlib.Path("given.json").read_text())
answer = None
exec(compile(pathlib.Path("script.py").read_text(), "script.py", "exec"))
pathlib.Path("answer.json").write_text(json.dumps(answer))
"""

EUROBERT = """
import torch
from transformers import AutoConfig, AutoModel, LlamaConfig, LlamaModel

class EuroBertConfig(LlamaConfig):
    model_type = "eurobert"

class EuroBertModel(LlamaModel):
    config_class = EuroBertConfig

    def _update_causal_mask(self, attention_mask, inputs, *_, **__):
        hidden = attention_mask[:, None, None, :].expand(-1, 1, inputs.shape[1], -1) == 0
        return torch.zeros(hidden.shape).masked_fill(hidden, torch.finfo(inputs.dtype).min).to(inputs.dtype)

AutoConfig.register("eurobert", EuroBertConfig)
AutoModel.register(EuroBertConfig, EuroBertModel)
"""
"""The start of a script that loads our models: their class in transformers 4.48.3, which lacks it, is Llama's with
attention in both directions."""


class CannotInstall(Exception):
    """The lock could not be installed; its text is the reason."""


@dataclass(frozen=True)
class Oracle:
    """Runs scripts against the installed lock."""

    site: Path
    """The folder of its packages."""

    def environment(self, scratch: Path) -> dict[str, str]:
        """Return the variables of its processes: its packages first, one thread, no GPU, no network."""
        return {
            **os.environ,
            "PYTHONPATH": str(self.site),
            "PYTHONNOUSERSITE": "1",
            "PYTHONDONTWRITEBYTECODE": "1",
            "CUDA_VISIBLE_DEVICES": "",
            "OMP_NUM_THREADS": "1",
            "TOKENIZERS_PARALLELISM": "false",
            "HF_HUB_OFFLINE": "1",
            "HF_HOME": str(scratch / "huggingface"),
        }

    def run(
        self, script: str, *, folder: Path, timeout: float = 600, **given: Any
    ) -> Any:
        """Run a script in a process of its own and return the `answer` that it sets.

        The script finds the keywords in the dictionary `given`; both ways they pass through JSON, which keeps the
        value of every float. It imports the oracle's packages and none of this project's; warnings are not errors.

        Args:
            script: Python, indented as the test needs it.
            folder: a new or empty folder, in which the script runs.
            timeout: seconds.
            given: what JSON can hold, and paths.
        """
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "given.json").write_text(
            json.dumps(given, default=os.fspath), encoding="utf-8"
        )
        (folder / "script.py").write_text(textwrap.dedent(script), encoding="utf-8")
        done = subprocess.run(
            [sys.executable, "-P", "-c", _START],
            cwd=folder,
            env=self.environment(folder),
            capture_output=True,
            text=True,
            check=False,
            timeout=timeout,
        )
        assert done.returncode == 0, (
            f"the oracle's script failed:\n{done.stderr[-4000:]}"
        )
        return json.loads((folder / "answer.json").read_text(encoding="utf-8"))


def install(build: Path = ROOT / "build", lock: Path | None = None) -> Oracle:
    """Return the oracle of a lock (`LOCK`), made on the first call; another process that makes it is waited for.

    Raises:
        CannotInstall: pip could not install the lock.
    """
    lock = lock or LOCK
    name = f"{lock.stem}-{hashlib.sha256(lock.read_bytes()).hexdigest()[:12]}-{sys.implementation.cache_tag}"
    site = build / name
    if site.is_dir():
        return Oracle(site)
    with wait_for_lock(
        build / ".oracle.lock",
        f"another process installs requirements/{lock.name}; waiting",
    ):
        if site.is_dir():
            return Oracle(site)
        making = build / f".{name}"
        shutil.rmtree(making, ignore_errors=True)  # of a killed process
        pip = [
            sys.executable,
            "-m",
            "pip",
            "install",
            "--quiet",
            "--no-input",
            "--disable-pip-version-check",
        ]
        locked = [
            "--no-deps",
            "--require-hashes",
            "--target",
            str(making),
            "-r",
            str(lock),
        ]
        done = subprocess.run(
            [*pip, *locked], capture_output=True, text=True, check=False
        )
        if done.returncode:
            shutil.rmtree(making, ignore_errors=True)
            errors = [
                line for line in done.stderr.splitlines() if line.startswith("ERROR")
            ]
            raise CannotInstall(
                (errors or done.stderr.splitlines() or ["no reason given"])[-1].strip()
            )
        making.rename(site)
    return Oracle(site)


def older_tokenizer(folder: Path) -> None:
    """Name a tokenizer's class as transformers before 5 does, and its inputs as EuroBERT's tokenizer does."""
    file = folder / "tokenizer_config.json"
    fields = json.loads(file.read_text(encoding="utf-8"))
    fields |= {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_input_names": ["input_ids", "attention_mask"],
    }
    file.write_text(json.dumps(fields), encoding="utf-8")


if __name__ == "__main__":
    try:
        sys.stdout.write(f"{install().site}\n")
    except CannotInstall as error:
        sys.exit(f"error: requirements/oracle.txt cannot be installed: {error}")
