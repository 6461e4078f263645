"""`clm-or-mlm completion`: what a shell is given, and what bash completes with it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from clm_or_mlm.__main__ import main
from clm_or_mlm.completion import SHELLS, completion
from common.cli import program
from common.errors import UserError


@pytest.mark.parametrize("shell", SHELLS)
def test_completion_names_every_command(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    for word in ("claims", "--format", "paper_figures", "ingest", "markdown"):
        assert word in script


def test_bash_completes_commands_and_options(tmp_path: Path) -> None:
    script = tmp_path / "completion"
    script.write_text(completion("bash", program("clm-or-mlm", "", {})), encoding="utf-8")
    probe = (
        f"source {script}; function=$(complete -p clm-or-mlm | sed 's/.*-F \\([^ ]*\\).*/\\1/')\n"
        "COMP_WORDS=(clm-or-mlm analysis cla); COMP_CWORD=2; $function clm-or-mlm cla analysis\n"
        'echo "${COMPREPLY[@]}"\n'
        "COMP_WORDS=(clm-or-mlm analysis table --for); COMP_CWORD=3; $function clm-or-mlm --for table\n"
        'echo "${COMPREPLY[@]}"'
    )
    done = subprocess.run(["bash", "-c", probe], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["claims", "--format"]


def test_an_unknown_shell_is_refused() -> None:
    with pytest.raises(UserError, match="unknown shell 'bsh'; did you mean 'bash'"):
        main(["completion", "bsh"])
