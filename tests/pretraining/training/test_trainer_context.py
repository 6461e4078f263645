from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from common.errors import UserError
from pretraining.plan.study_file import Study
from pretraining.training.train import train
from tests.pretraining.small_study import MODEL, changed

pytestmark = pytest.mark.filterwarnings(
    "ignore"
)  # Composer's and TensorBoard's own; ours are errors elsewhere


MISTAKES = [
    (["peak_rl=1"], "did you mean 'peak_lr'"),
    (["max_length=128"], "longer than the model's 64 tokens"),
    (["global_batch=100000"], "fewer than the 100000 of one step"),
    (["backend=flash"], "attention backend flash needs a GPU and bf16 or fp16"),
]


@pytest.mark.parametrize(("words", "message"), MISTAKES)
def test_wrong_settings_are_reported(
    study: Study, data: Path, tmp_path: Path, words: list[str], message: str
) -> None:
    with pytest.raises(UserError, match=message):
        train(MODEL, data=data, out=tmp_path, study=study, config=changed(study, *words))


def test_another_run_is_never_resumed(done: Path, study: Study, data: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"was trained with peak_lr=0.003, not 0.001"):
        train(MODEL, data=data, out=done, study=study, config=changed(study, "peak_lr=1e-3"))
    with pytest.raises(UserError, match="was trained with peak_lr"):
        train("mini-s-clm-24", data=data, out=done, study=study, config=changed(study, "peak_lr=1e-3"))
    other = shutil.copytree(data, tmp_path / "other")
    manifest = json.loads((other / "manifest.json").read_text())
    (other / "manifest.json").write_text(json.dumps(manifest | {"sha256": "0" * 64}))
    with pytest.raises(UserError, match="with other shards than"):
        train(MODEL, data=other, out=done, study=study)
    manifest["tokenizer"]["sha256"] = "1" * 64
    (other / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(UserError, match="with another tokenizer than"):
        train(MODEL, data=other, out=done, study=study)
    manifest["tokenizer"]["vocab_size"] = 50_000
    (other / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(UserError, match=r"has 50000 ids, the model rows for 400"):
        train(MODEL, data=other, out=tmp_path / "new", study=study)
    with pytest.raises(UserError, match="no shards here"):
        train(MODEL, data=tmp_path, out=tmp_path / "new", study=study)
    with pytest.raises(UserError, match="did you mean 'mini-s-clm'"):
        train("mini-s-cml", data=data, out=tmp_path, study=study)
