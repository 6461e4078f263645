"""What a user gets wrong is one sentence and leaves nothing behind, in every command."""

import os
import shlex
from pathlib import Path

import pytest

from clm_or_mlm.__main__ import main
from tests.messages import refused

MISTAKES = {
    "build analisys": 'Invalid value "analisys" for IMAGE. Choose from: "analysis", "full". Did you mean "analysis"?',
    "container run": "container run needs IMAGE (see",
    "workflow tiny": "unknown target 'tiny'",
    "figure 5": "Figure 5 needs individual runs",
    "figure 12": "Figure 12 needs training logs",
    "figure": "name the figures to draw: 1 to 12, all (of these), answer",
    "figure 99": "use one of 1 to 12, all (of these), answer, claims",
    "benchmarks rnu": "did you mean 'run'? (see python -m clm_or_mlm benchmarks --help)",
    "fetch-released figrue3": "give figure1 to figure12, table2 to table17, a model, or all; did you mean 'figure3'?",
    "scores --model nothing": "has no scores of 'nothing'; leave --model out",
    "figure claims --interval bootstrap": "needs individual runs",
    "figure 3 --source absent.parquet": "absent.parquet: ",
    "figure 12 --source absent.parquet --logs logs": "absent.parquet: ",
    "figure 3 --format pgn": "unknown format 'pgn'; use one of pdf, png, svg; did you mean 'png'?",
    "figure 3 --interval bootstrap": "interval needs individual runs",
    "plan --model 610-mlm40-42k": "did you mean '610m-mlm40-42k'",
    "plan --figure 13": "no figure 13",
    "plan mine-mlm40-120": "unknown model 'mine-mlm40-120'",
    "plan --start x --tokens 1e9 610m-clm-42k": "leave out models",
    "plan --start x": "give --tokens with --start",
    "plan --tokens 1e9": "give --start",
    "plan 610m-clm-42k --seeds 3": "give its file as --study",
    "plan --study x.toml --datasets sst3": 'Did you mean "sst2"',
    "plan --device Voodoo": "--tflops",
    "plan --device H10": "unknown device 'H10'; devices are A100, A100 80GB, H100,",
    "settings --set peak_lr": "--set takes key=value, not 'peak_lr'",
    "shards": "shards needs --source",
    "shards --source x --out y": "shards needs --tokenizer",
    "shards --source x --tokenizer y --out z --validation-share 0": "--validation-share",
    "check .": "has nothing that is checked; give an encoder (config.json), shards (train or validation), a run",
    "check nowhere": "nowhere is not there",
    "shards --source x --tokenizer y --out ''": "--out is empty; give a path (is a variable",
    "shards --source '' --tokenizer y --out z": "--source is empty; give a path",
    "shards --source x --tokenizer y --out z --workers -1": "for --workers. Must be >= 0",
    "adapt '' --data x --out y --steps 9": "START is empty; give a path",
    "benchmarks run --model '' --dataset sst2": "--model is empty; give a path",
    "tokenizer --train x --documents -1 --out y": "for --documents. Must be >= 1",
    "tokenizer --out x": "either --convert or --train",
    "tokenizer --source x": "--out instead of --source",
    "train": "train needs MODEL (see python -m clm_or_mlm train --help)",
    "train 610m-clm --data": "--data requires an argument (see",
    "train 610m-clm --data . --out .": "no shards here; write them with",
    "import sst3": "did you mean 'sst2'",
    "synthetic sst2": "synthetic needs --out",
    "datasets verfiy": 'Did you mean "verify"',
    "claims F99": "unknown finding 'F99'",
    "claims --interval bootstrap": "needs individual runs",
    "claims --interval tt": 'Did you mean "t"',
    "claims --source standard:published": "the paper's tables have no standard scores",
    "compare 610m-mlm40-42k 610m-clm-42k --margin 0": "--margin 0",
    "compare 610m-clm-42k": "at least two models",
    "compare": "at least two models; no model",
    "compare A B --source /dev/null": "/dev/null is not a regular file",
    "scores --format parquet": "--format parquet is binary: write it to a file with --out scores.parquet",
    "scores --dataset sst3": "did you mean 'sst2'",
    "scores --model 610m-cml-42k": "has no scores of '610m-cml-42k'; did you mean '610m-clm-42k'",
    "table ten": "there is no table 'ten'; give numbers from 1 to 17, or all",
    "table 18": "there is no Table 18; the paper has Tables 1 to 17",
    "table 2 --format pdf": 'Invalid value "pdf" for --format',
    "audit --format latex": "latex",
    "answer": "use `python -m clm_or_mlm claims answer`",
    "f5A": "use `python -m clm_or_mlm claims F5a`",
    "help F8": "use `python -m clm_or_mlm claims F8`",
    "figure3 --out x": "use `python -m clm_or_mlm figure 3`",
    "610m-clm-42k": "use `python -m clm_or_mlm plan 610m-clm-42k`",
    "plan --tflops 24h": "--tflops takes a number such as 24, not '24h'",
    "adapt x --data d --out o --tokens 1Bn": "--tokens takes a number such as 1e9, not '1Bn'",
    "figure 11": "Figure 11 needs scores of 1b-clm-10k-mlm40-42k",
}  # fmt: skip


_TABLE = "model,dataset,seed,score\nA,x,0,1\nA,x,1,2\nB,x,0,3\nB,x,1,4\n"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (
            "compare A B --source t.csv --out t.csv",
            "--out t.csv is the file that --source reads",
        ),
        (
            "compare A B --source link.csv --out ./t.csv",
            "--out ./t.csv is the file that --source reads",
        ),
        (
            "scores --study t.csv --out t.csv",
            "--out t.csv is the file that --study reads",
        ),
        ("compare A B --source t.csv --study absent.toml", "--study is for runs"),
        ("audit --source pipe.csv", "pipe.csv is not a regular file"),
    ],
)
def test_what_is_read_is_not_written_and_no_pipe_is_waited_for(
    words: str, sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("t.csv").write_text(_TABLE)
    Path("link.csv").symlink_to("t.csv")
    os.mkfifo("pipe.csv")
    with refused(sentence):
        main(shlex.split(words))
    assert Path("t.csv").read_text() == _TABLE and len(list(tmp_path.iterdir())) == 3


@pytest.mark.parametrize("words", MISTAKES)
def test_a_mistake_is_one_sentence(
    words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with refused(MISTAKES[words]):
        main(shlex.split(words))
    assert list(tmp_path.iterdir()) == []
