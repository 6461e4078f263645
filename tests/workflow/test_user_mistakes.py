"""What a user gets wrong is one sentence before anything is submitted: no job is started, nothing is written."""

import os
from pathlib import Path

import pytest

from clm_or_mlm.__main__ import main
from common.errors import UserError
from tests.commands import program

GOOD = {
    "text": '["text.jsonl"]',
    "train_tokenizer": "384",
    "make_datasets": '["--train", "8", "--evaluation", "4"]',
    "datasets": '["sst2"]',
    "gpus_per_node": "0",
    "repeat_text": "true",
}

CALLS = [
    (("figur3",), "did you mean 'figure3'"),
    (("610m-mlm40-42",), "did you mean '610m-mlm40-42k'"),
    (("table1",), "table1 shows no models"),
    (("figure13",), "figure13"),
    (("210m-clm-42k", "--profile", "slrum"), 'Did you mean "slurm"?'),
    (("210m-clm-42k", "--image", "no.sif"), "no.sif does not exist"),
    (("210m-clm-42k", "--image", "text.jsonl"), "is not named like an image file"),
    (("210m-clm-42k", "--image", "zeros.sif"), "zeros.sif is not a valid image file"),
    (("210m-clm-42k", "more"), "Unexpected argument 'more'"),
]
SETTINGS = [
    ({"pretraining_settings": '["global_bach=8"]'}, "did you mean 'global_batch'"),
    ({"pretraining_settings": '["global_batch=eight"]'}, "global_batch"),
    ({"pretraining_settings": '["global_batch"]'}, "global_batch"),
    ({"pretraining_settings": '["peak_lr=-1"]'}, "peak_lr"),
    ({"learning_rates": "[-1e-4]"}, "-0.0001 is not a learning rate"),
    ({"learning_rates": "[5.0]"}, "5 is not a learning rate"),
    ({"learning_rates": "[1e-4, 1e-4]"}, "learning_rates lists 0.0001 more than once"),
    ({"learning_rates": "[]"}, "at least one entry"),
    ({"learning_rates": '"1e-4"'}, "learning_rates takes a list"),
    ({"seeds": "[0, 0]"}, "seeds lists 0 more than once"),
    ({"seeds": "[-1]"}, "-1 is not a seed"),
    ({"seeds": "[0.5]"}, "seeds"),
    ({"datasets": '["sst3"]'}, "did you mean 'sst2'"),
    ({"datasets": '["sst2", "sst2"]'}, "datasets lists sst2 more than once"),
    ({"text": '["*.parquet"]'}, "matches no file"),
    ({"repeat_text": "false"}, "tokens, but the study needs"),
    ({"gpus_per_node": "99"}, "asks for 99 GPUs, but this machine has"),
    ({"tuning_options": '["--stpes", "4"]'}, "tuning_options: "),
    ({"tuning_options": '["--steps", "many"]'}, "tuning_options: "),
    ({"shard_options": '["--shard-recrods", "8"]'}, "shard_options: "),
    ({"text": '["hf:a/b"]'}, "hf:a/b needs network access, but HF_HUB_OFFLINE is set"),
    ({"train_tokenizer": "128257"}, "has 128,257 ids, but 210m has rows for 128,256"),
    ({"train_tokenizer": "0", "tokenizer": '"text.jsonl"'}, "tokenizer: "),
    ({"tokenizer": '"text.jsonl"'}, "two tokenizers"),
    ({"text": "[]"}, "no text to pretrain on"),
    ({"train_tokenizer": "0"}, "no tokenizer"),
    ({"train_tokenizer": "0", "tokenizer": '"tok.json"'}, "tok.json does not exist"),
    ({"make_datasets": "[]", "data": '"empty"'}, "lacks sst2; download them"),
    ({"study": '"mine.toml"'}, "mine.toml"),
    ({"acount": '"abc"'}, "did you mean 'account'"),
    ({"device": '"H1000"'}, "did you mean 'H100'"),
    ({"nodes": "0"}, "nodes must be at least 1"),
    ({"nodes": ""}, "not a TOML file"),
    ({"image_key": '"key.pem"'}, "key.pem does not exist"),
]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "empty").mkdir()
    (tmp_path / "text.jsonl").write_text('{"text": "a"}\n')
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    return tmp_path


@pytest.mark.parametrize(
    ("settings", "words", "sentence"),
    [
        *((one, ("210m-clm-42k",), said) for one, said in SETTINGS),
        *(({}, one, said) for one, said in CALLS),
    ],
    ids=str,
)
def test_a_mistake_is_one_sentence_and_nothing_is_written(
    folder: Path, settings: dict[str, str], words: tuple[str, ...], sentence: str
) -> None:
    (folder / "zeros.sif").write_bytes(bytes(100_000))
    (folder / "s.toml").write_text(
        "".join(f"{key} = {value}\n" for key, value in (GOOD | settings).items())
    )
    with pytest.raises((UserError, FileNotFoundError)) as found:
        main(["workflow", *words, "--dir", "study", "--settings", "s.toml"])
    assert sentence in str(found.value) and "\n" not in str(found.value)
    assert not (folder / "study").exists()


def test_the_image_is_tried_with_the_studys_own_folder_shown(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = (
        'case "$*" in run*) echo "$*" > seen; echo "error: seen" >&2; exit 2;; esac'
    )
    made = program(folder / "bin" / "apptainer", answers)
    monkeypatch.setenv("PATH", f"{made.parent}:{os.environ['PATH']}")
    (folder / "a.sif").write_bytes(bytes(32) + b"SIF_MAGIC")
    (folder / "study").mkdir()
    (folder / "s.toml").write_text(
        "".join(f"{key} = {value}\n" for key, value in GOOD.items())
    )
    with pytest.raises(UserError, match="cannot be started here"):
        main(
            [
                "workflow",
                "210m-clm-42k",
                "--dir",
                "study",
                "--settings",
                "s.toml",
                "--image",
                "a.sif",
            ],
        )
    assert f"--bind {folder / 'study'} " in (folder / "seen").read_text()
