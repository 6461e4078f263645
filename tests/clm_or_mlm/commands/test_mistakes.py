"""What a user gets wrong is one sentence and leaves nothing behind, in every command."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from clm_or_mlm.rooms import main_of
from common.errors import UserError

MISTAKES = {
    "container build analisys": "unknown image 'analisys'; use one of analysis, full; did you mean 'analysis'",
    "container run": "IMAGE requires",
    "workflow tiny --settings x.toml": "the tiny study has its own settings",
    "miniature run --workers 0": "--workers must be at least 1, not 0",
    "miniature run --data absent": "has no folder text",
    "miniature sample --form quick": "--data requires",
    "paper_figures 5": "Figure 5 needs individual runs",
    "paper_figures 12": "Figure 12 needs training logs",
    "paper_figures 3 --source absent.parquet": "absent.parquet: ",
    "paper_figures 12 --source absent.parquet --logs logs": "absent.parquet: ",
    "paper_figures 3 --format jpg": "unknown format 'jpg'",
    "paper_figures 3 --interval bootstrap": "interval needs individual runs",
    "pretraining plan --model 610-mlm40-42k": "did you mean '610m-mlm40-42k'",
    "pretraining plan --figure 13": "no figure 13",
    "pretraining plan --device H10": "unknown device 'H10'; devices are A100, H100,",
    "pretraining settings --set peak_lr": "--set takes key=value, not 'peak_lr'",
    "pretraining shards": "--source requires",
    "pretraining shards --source x --out y": "--tokenizer requires",
    "pretraining shards --source x --tokenizer y --out z --validation-share 0": "--validation-share",
    "pretraining verify .": "no shards here; write them",
    "pretraining tokenizer --out x": "either --convert or --train",
    "pretraining tokenizer --source x": "--out instead of --source",
    "pretraining train": "MODEL requires an argument (see python -m pretraining train --help)",
    "pretraining train 610m-clm --data . --out .": "no shards here; write them with",
    "benchmarks import sst3": "did you mean 'sst2'",
    "benchmarks synthetic sst2": "--out requires",
    "benchmarks datasets shwo": 'Did you mean "show"',
    "analysis claims --opinion --datasets": "--opinion cannot be combined with --multiverse or --datasets",
    "analysis claims --id F99": "unknown claim 'F99'",
    "analysis claims --interval bootstrap": "needs individual runs",
    "analysis claims --interval tt": 'Did you mean "t"',
    "analysis claims --source standard:published": "the paper's tables have no standard scores",
    "analysis compare 610m-mlm40-42k 610m-clm-42k --margin 0": "--margin 0",
    "analysis compare 610m-mlm40-42k 610m-clm-42k --rho 1": "--rho 1",
    "analysis compare 610m-clm-42k": "at least two models",
    "analysis compare": "at least two models; no model",
    "analysis best ratios": "unknown question 'ratios'",
    "analysis coverage --trials 5": "100 trials",
    "analysis scores --format parquet": "--format parquet is binary: write it to a file with --out scores.parquet",
    "analysis scores --dataset sst3": "did you mean 'sst2'",
    "analysis scores --model 610m-cml-42k": "has no scores of '610m-cml-42k'; did you mean '610m-clm-42k'",
    "analysis table ten": "there is no table 'ten'; give numbers from 1 to 17, or all",
    "analysis table 18": "there is no Table 18; the paper has Tables 1 to 17",
    "analysis table 2 --format pdf": 'Invalid value "pdf" for --format',
    "analysis audit --letter --format json": "use --format markdown or html",
    "analysis audit --format latex": "latex",
    "analysis provenance .": "not a run store: it has no folder `results`",
    **{
        f"analysis design --effect 1 {words}": words.split()[0]
        for words in (
            "--effect -1", "--effect nan", "--seeds 0", "--seeds 1.5", "--pretrainings 0", "--pretraining-sd -0.1",
            "--dataset-sd inf", "--tests 0", "--power 0.05", "--interval bootstrap",
        )
    },
}  # fmt: skip


@pytest.mark.parametrize("words", MISTAKES)
def test_a_mistake_is_one_sentence(words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    room, *rest = shlex.split(words)
    with pytest.raises(UserError) as error:
        main_of(room)(rest)
    assert MISTAKES[words] in str(error.value) and "\n" not in str(error.value)
    assert list(tmp_path.iterdir()) == []
