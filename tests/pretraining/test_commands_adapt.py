"""The three commands from a decoder's folder and a text to an encoder, and what they refuse."""

import json
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers as hf
from safetensors.torch import load_file, save_file
from sentence_transformers import SentenceTransformer
from tokenizers import Tokenizer
from transformers import AutoModel

from benchmarks.finetuning.encoders import load_model
from benchmarks.finetuning.heads import TokenHead, token_head
from clm_or_mlm.__main__ import main
from common.errors import UserError
from pretraining.data.tokenizer import train_tokenizer
from pretraining.model.encoder_folder import checked_encoder
from pretraining.model.start_folder import write_merged
from pretraining.starts import start_of
from pretraining.training import network
from pretraining.training.log import read_log
from tests.benchmarks.embedders import as_embedder
from tests.commands import started
from tests.flips import flip
from tests.messages import refused
from tests.pretraining.documents import make_documents
from tests.pretraining.families import ROWS, save_start

SMALL = [
    word
    for setting in ("global_batch=4", "max_length=24", "eval_sequences=4", "callbacks=")
    for word in ("--set", setting)
]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A start, a text and its shards."""
    folder = tmp_path_factory.mktemp("builder")
    save_start(folder / "start", "qwen2")
    (folder / "texts.txt").write_text("\n\n".join(make_documents(60)))
    words = [
        "--source",
        f"{folder}/texts.txt",
        "--tokenizer",
        f"{folder}/start",
        "--out",
        f"{folder}/shards",
    ]
    main(["shards", *words, "--validation-share", "0.05", "--workers", "0"])
    return folder


def adapt(place: Path, out: Path, *words: str, start: Path | None = None) -> list[str]:
    """Return the words that adapt a start to the shards of this place, in small settings."""
    given = [
        f"{start or place / 'start'}",
        "--data",
        f"{place}/shards",
        "--out",
        f"{out}",
    ]
    return ["adapt", *given, *SMALL, *words]


def test_three_commands_make_a_folder_for_sentence_transformers(
    place: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")
    words = adapt(place, tmp_path, "--steps", "4")
    main([*words, "--merge", "0.5"])
    merged, made = capsys.readouterr().out.splitlines()[-2:]
    assert merged == f"{made}-merge50"
    for said in (
        "mask token <|mask|>, id 299, was <file_sep>",
        "apache-2.0",
        "peak_lr = ",
        "decay = 1: ",
        "FLOPs, ",
        " hours of one H100",
        "at the speed of the first pass, 4 updates in passes of 96 tokens take ",
        "4 updates of 96 tokens, ",
        " at 30 %; an embedder needs pairs next",
    ):
        assert said in caplog.text
    for folder in (made, merged):
        main(["check", folder])
        assert "sees the last" in capsys.readouterr().out
    parts = json.loads((Path(made) / "modules.json").read_text())
    assert [part["path"] for part in parts] == ["", "1_Pooling"]
    pooling = json.loads((Path(made) / "1_Pooling/config.json").read_text())
    assert (pooling["pooling_mode"], pooling["pooling_mode_mean_tokens"]) == (
        "mean",
        True,
    )
    for folder in (made, merged):
        # Not the start's positions
        assert SentenceTransformer(folder, device="cpu").max_seq_length == 24
    main(words)
    assert "nothing to do; the model is complete" in caplog.text


def embedder_of(place: Path, folder: Path, mode: str) -> Path:
    """The start of this place with the files of an embedder that is pooled so, written by sentence-transformers."""
    start = Path(shutil.copytree(place / "start", folder / "start", dirs_exist_ok=True))
    as_embedder(start, folder / "written", mode=mode, prompts={}, longest=24)
    for name in ("modules.json", "1_Pooling/config.json"):
        (start / name).parent.mkdir(exist_ok=True)
        shutil.copyfile(folder / "written" / name, start / name)
    return start


def test_folder_of_another_pooling_is_refused_and_written_again(
    place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    words = ["--steps", "2"]
    main(adapt(place, out, *words, start=place / "start"))
    made = Path(capsys.readouterr().out.split()[-1])
    start = embedder_of(place, tmp_path, "cls")
    with refused(made, "pooling='mean'", "'first'", "remove its folder"):
        main(adapt(place, out, *words, start=start))
    shutil.rmtree(made)
    main(adapt(place, out, *words, start=start))
    assert json.loads((made / "manifest.json").read_text())["embedding"] == {
        "pooling": "first",
        "query": "",
        "document": "",
    }
    model = SentenceTransformer(str(made), device="cpu")
    states = AutoModel.from_pretrained(made)(**model.tokenize(["the heart"]))
    first = states.last_hidden_state[0, 0].detach().numpy()
    np.testing.assert_allclose(model.encode("the heart"), first, atol=1e-5)


@pytest.mark.parametrize("mode", ["max", "weightedmean"])
def test_pooling_that_no_folder_keeps_is_refused(
    mode: str, place: Path, tmp_path: Path
) -> None:
    start = embedder_of(place, tmp_path, mode)
    with refused(start, f"pooled by {mode}", "without modules.json"):
        main(adapt(place, tmp_path / "out", "--steps", "2", start=start))
    assert not (tmp_path / "out").exists()
    (start / "modules.json").unlink()
    assert start_of(str(start)).embedding.pooling == "mean"


def test_lower_case_that_shards_do_not_have_is_refused(
    place: Path, tmp_path: Path
) -> None:
    """What the message says to do makes a start whose own tokenizer reads so."""
    start = embedder_of(place, tmp_path, "mean")
    limits = {"max_seq_length": 24, "do_lower_case": True}
    (start / "sentence_bert_config.json").write_text(json.dumps(limits))
    with refused(start, "lower case", "sentence-transformers", "start from the copy"):
        main(adapt(place, tmp_path / "out", "--steps", "2", start=start))
    copy = tmp_path / "copy"
    SentenceTransformer(str(start), device="cpu").save_pretrained(str(copy))
    text = start_of(str(copy)).tokenizer.content
    inner = Tokenizer.from_str(json.dumps(text))
    assert inner.encode("The Heart").ids == inner.encode("the heart").ids


def test_a_shift_is_recorded_for_heads(
    place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(adapt(place, tmp_path, "--objective", "mntp20", "--steps", "4"))
    made = Path(capsys.readouterr().out.split()[-1])
    assert json.loads((made / "config.json").read_text())["prediction_shift"] == 1
    head = token_head(load_model(str(made)).encoder, 3, "paper")
    assert isinstance(head, TokenHead) and head.shift == 1


def test_text_below_a_step_names_tokens_that_fit(place: Path, tmp_path: Path) -> None:
    words = [*adapt(place, tmp_path), "--set", "backend=flash2", "--tokens"]
    with pytest.raises(
        UserError, match=r"and one step takes [\d,]+; give --set global_batch=12 with"
    ) as found:
        main([*words, "1e9", "--set", "global_batch=9999"])
    fits = re.search(
        r"(global_batch=\d+) with --tokens (\d+) \(20 passes\)", str(found.value)
    )
    assert fits is not None
    with pytest.raises(UserError, match="backend flash2"):
        main([*words, fits[2], "--set", fits[1]])


def test_over_twenty_passes_are_asked_for_by_name(place: Path, tmp_path: Path) -> None:
    words = adapt(place, tmp_path)
    with pytest.raises(
        UserError, match=r"its text has [\d,]+ training tokens, and .* passes over it"
    ) as found:
        main([*words, "--tokens", "1e9"])
    assert not any(tmp_path.iterdir())
    fits = re.search(r"give --tokens (\d+) \(20 passes\) or fewer", str(found.value))
    assert fits is not None
    for given, passes in (
        (["--tokens", fits[1]], True),
        (["--tokens", f"{int(fits[1]) + 96}"], False),
        (["--tokens", "1e9", "--repeat-text"], True),
    ):
        # What is let through is refused for its backend, later.
        with pytest.raises(
            UserError, match="backend flash2" if passes else "20 passes"
        ):
            main([*words, *given, "--set", "backend=flash2"])


def test_a_trunks_checkpoint_is_a_start(place: Path, tmp_path: Path) -> None:
    study = tmp_path / "study.toml"
    study.write_text(
        'prefix = "own-"\ndecay_steps = 2\nmodels = ["own-s-clm-4"]\n[sizes.s]\nhidden = 32\nlayers = 1\nheads = 2\n'
        "kv_heads = 2\nmlp = 48\nvocab = 320\nmax_length = 24\n"
    )
    data = ["--data", f"{place}/shards", "--out", f"{tmp_path}", *SMALL]
    main(["train", "own-s-clm", "--study", f"{study}", *data])
    (trunk,) = (tmp_path / "stages/own-s-clm").glob("step-*")
    main(["adapt", f"{trunk}", "--steps", "2", *data])
    (made,) = (tmp_path / "models").iterdir()
    assert len(checked_encoder(made)) == 3


def _config(**changes: object) -> Callable[[Path], None]:
    def change(start: Path) -> None:
        path = start / "config.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | changes))

    return change


def _cut_short(start: Path) -> None:
    path = start / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-1000])


def _pointer(start: Path) -> None:
    (start / "model.safetensors").write_text(
        "version https://git-lfs.github.com/spec/v1\noid sha256:0\n"
    )


def _weight(other: torch.Tensor | None) -> Callable[[Path], None]:
    def change(start: Path) -> None:
        tensors = load_file(start / "model.safetensors")
        del tensors["model.layers.1.mlp.up_proj.weight"]
        tensors |= {} if other is None else {"model.layers.1.mlp.up_proj.weight": other}
        save_file(tensors, start / "model.safetensors", metadata={"format": "pt"})

    return change


def _pickled(start: Path) -> None:
    (start / "model.safetensors").rename(start / "pytorch_model.bin")


def _other_tokenizer(start: Path) -> None:
    train_tokenizer(make_documents(40, seed=5), 290).save(start)


def _saved(kind: Callable[[], hf.PreTrainedModel]) -> Callable[[Path], None]:
    def change(start: Path) -> None:
        (start / "model.safetensors").unlink()
        kind().save_pretrained(start)

    return change


_PLAIN = {
    "vocab_size": ROWS,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
}
_SINKS = {
    **_PLAIN,
    "num_key_value_heads": 2,
    "num_local_experts": 2,
    "num_experts_per_tok": 1,
    "head_dim": 8,
}


def _changed(
    change: Callable[[dict[str, torch.Tensor]], dict[str, torch.Tensor]],
) -> Callable[[Path], None]:
    def apply(start: Path) -> None:
        path = start / "model.safetensors"
        save_file(change(load_file(path)), path)

    return apply


def _renamed(pattern: str) -> Callable[[Path], None]:
    return _changed(
        lambda tensors: {
            pattern.format(name): tensor for name, tensor in tensors.items()
        }
    )


_emptied = _changed(lambda tensors: {name: torch.empty(0) for name in tensors})
_other_head = _changed(
    lambda tensors: tensors | {"lm_head.weight": torch.ones(300, 32)}
)


def _large(name: str) -> Callable[[Path], None]:
    return lambda start: os.truncate(start / name, 2**30)


def _with_dropout(start: Path) -> None:
    content = json.loads((start / "tokenizer.json").read_text())
    content["model"]["dropout"] = 0.1
    (start / "tokenizer.json").write_text(json.dumps(content))


def _missing(name: str) -> Callable[[Path], None]:
    return lambda start: (start / name).unlink()


@pytest.mark.parametrize(
    ("break_it", "named"),
    [
        (shutil.rmtree, ["no model folder"]),
        (_missing("config.json"), ["no model config.json"]),
        (_missing("tokenizer.json"), ["tokenizer.json", "save_pretrained"]),
        (_other_tokenizer, ["another tokenizer", "shards --tokenizer"]),
        (_pickled, ["pickled", "save_pretrained"]),
        (
            _cut_short,
            [
                "model.safetensors is no safetensors file, or not whole",
                "fetch the model again",
            ],
        ),
        (
            lambda start: (start / "model.safetensors").write_bytes(b""),
            ["model.safetensors is no safetensors file"],
        ),
        (_pointer, ["model.safetensors is a Git LFS pointer", "git lfs pull"]),
        (
            _weight(torch.zeros(32, 32, dtype=torch.int8)),
            ["quantised", "original", "up_proj.weight: I8"],
        ),
        (
            _weight(torch.zeros(32, 32).to(torch.float8_e4m3fn)),
            ["quantised", "up_proj.weight: F8_E4M3"],
        ),
        (
            _weight(torch.zeros(32, 4)),
            ["model.layers.1.mlp.up_proj.weight has the shape (32, 4)", "(48, 32)"],
        ),
        (_config(vision_config={"depth": 2}), ["images", "text alone"]),
        (_config(quantization_config={"bits": 4}), ["quantised", "original", "bf16"]),
        (
            _config(quantization={"group_size": 64, "bits": 4}),
            ["quantised", "original"],
        ),
        (_with_dropout, ["tokenizer.json", "dropout", "null"]),
        (_config(is_encoder_decoder=True), ["encoder-decoder"]),
        (
            _config(num_hidden_layers=200_000),
            ["config.json: num_hidden_layers is 200000", "more than any"],
        ),
        (
            _config(hidden_size=10**400),
            ["config.json: hidden_size is", "more than any"],
        ),
        (_large("README.md"), ["README.md has", "more than the limit"]),
        (_large("tokenizer.json"), ["tokenizer.json has", "more than the limit"]),
        (_config(model_type="unheard_of"), ["cannot be loaded", "unheard_of"]),
        (
            _config(
                model_type="unheard_of",
                auto_map={"AutoConfig": "code.Config", "AutoModel": "code.Model"},
            ),
            ["code that comes with a model is not run"],
        ),
        (_weight(None), ["lacks weights", "fetch the model again"]),
        (_renamed("_orig_mod.{}"), ["torch.compile", "`_orig_mod.`", "unwrap_model"]),
        (_renamed("module.{}"), ["DataParallel, DDP or DeepSpeed", "`module.`"]),
        (_renamed("model._fsdp_wrapped_module.{}"), ["FSDP", "unwrap_model"]),
        (_renamed("{}.lora_A.weight"), ["an adapter", "merge_and_unload"]),
        (_emptied, ["tensors are empty", "ZeRO-3", "zero_to_fp32.py"]),
        (_weight(torch.full((48, 32), torch.nan)), ["outputs that are no numbers"]),
        (_other_head, ["320 rows and lm_head.weight has 300", "one vocabulary"]),
        (
            lambda start: (start / "adapter_config.json").write_text("{}"),
            ["merge_and_unload"],
        ),
        (
            _saved(
                lambda: hf.Lfm2ForCausalLM(
                    hf.Lfm2Config(
                        **_PLAIN,
                        num_key_value_heads=2,
                        layer_types=["conv", "full_attention"],
                    )
                )
            ),
            ["another sequence", "another family"],
        ),
        (_saved(lambda: hf.GptOssForCausalLM(hf.GptOssConfig(**_SINKS))), ["sinks"]),
    ],
)
def test_a_start_that_cannot_be_used_is_refused_in_a_sentence(
    break_it: Callable[[Path], None], named: list[str], place: Path, tmp_path: Path
) -> None:
    start = shutil.copytree(place / "start", tmp_path / "start")
    break_it(start)
    with refused(*named):
        main(adapt(place, tmp_path / "out", "--steps", "4", start=start))
    assert not any((tmp_path / "out").rglob("*.safetensors"))


@pytest.fixture(scope="module")
def checkpoint(place: Path) -> Path:
    """A checkpoint that was trained from the start of this place."""
    main(adapt(place, place / "out", "--steps", "4", "--set", "save_every=4"))
    return next((place / "out/stages").glob("*/step-*"))


_DAMAGES = (
    b"",
    b"[]",
    b"{",
    b"\xff\xfe{}",
    b"\xef\xbb\xbf{}",
    b"version https://git-lfs.github.com/spec/v1\n",
)
"""Empty, another form, cut, not UTF-8, a byte-order mark, a pointer in place of a file."""
_TOKENIZER = ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json")
_ALL = (*_TOKENIZER, "config.json", "generation_config.json")
_COMMANDS = {
    "shards --source {place}/texts.txt --tokenizer {start} --out {out}": _TOKENIZER,
    "adapt {start} --data {place}/shards --steps 4 --out {out}": _ALL,
    "train mine --study {study} --data {place}/shards --out {out}": _ALL,
    "plan --study {study}": _ALL,
    "plan --start {start} --tokens 1e9": _ALL,
    "check {start}": _ALL,
    "pretraining export {checkpoint} --data {place}/shards --start {start} --out {out}": _ALL,
}


@pytest.mark.parametrize(
    ("command", "file"),
    [(words, file) for words, files in _COMMANDS.items() for file in files],
)
def test_damaged_file_of_a_start_is_named_by_every_command(
    command: str, file: str, place: Path, checkpoint: Path, tmp_path: Path
) -> None:
    start, study, out = (
        shutil.copytree(place / "start", tmp_path / "start"),
        tmp_path / "s.toml",
        tmp_path / "out",
    )
    study.write_text(
        f'decay_steps = 2\n[models.mine]\nstart = "{start}"\nstages = ["mlm30:4"]\n'
    )
    words = command.format(
        place=place, start=start, study=study, out=out, checkpoint=checkpoint
    ).split()
    for damage in _DAMAGES:
        (start / file).write_bytes(damage)
        with refused(file, *(["git lfs pull"] if b"lfs" in damage else [])):
            main(words)
    assert not out.exists()


def test_checkpoint_is_exported_once_its_starts_files_are_mended(
    place: Path, checkpoint: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    start, out = shutil.copytree(place / "start", tmp_path / "start"), tmp_path / "out"
    path = start / "tokenizer_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"model_max_length": 7}))
    words = [
        "pretraining",
        "export",
        f"{checkpoint}",
        "--data",
        f"{place}/shards",
        "--start",
        f"{start}",
        "--out",
    ]
    main([*words, f"{out}"])
    assert (
        "its tokenizer's files have changed since" in caplog.text
        and len(checked_encoder(out)) == 3
    )
    _config(rms_norm_eps=1e-3)(start)
    with refused("was not trained from", start):
        main([*words, f"{tmp_path}/other"])


_NO_TOKENIZERS = (
    {},
    {"added_tokens": {}},
    {"added_tokens": [1]},
    {"added_tokens": [{"id": 1}]},
    {"added_tokens": []},
    {"added_tokens": [{"id": "a", "content": "b"}], "model": {}},
    {"added_tokens": [], "model": []},
    {"added_tokens": [], "model": {"vocab": {"a": "b"}}},
    {"added_tokens": [{"id": 10**12, "content": "b"}], "model": {}},
    {"added_tokens": [{"id": -5, "content": "b"}], "model": {"vocab": {"a": 0}}},
    {"added_tokens": [{"id": 1, "content": []}], "model": {}},
)


@pytest.mark.parametrize("content", _NO_TOKENIZERS)
def test_a_tokenizer_json_of_another_form_is_named(
    content: object, place: Path, tmp_path: Path
) -> None:
    start = shutil.copytree(place / "start", tmp_path / "start")
    (start / "tokenizer.json").write_text(json.dumps(content))
    with refused("not a tokenizer.json"):
        main(adapt(place, tmp_path / "out", "--steps", "4", start=start))


@pytest.mark.parametrize(
    ("words", "named"),
    [
        ([], ["--steps", "--tokens"]),
        (["--steps", "4", "--tokens", "1e6"], ["either"]),
        (["--steps", "1"], ["at least 2 steps"]),
        (["--steps", "1" + "0" * 400], ["at most 99,999,999 steps"]),
        (["--tokens", "1e300"], ["at most 99,999,999 steps"]),
        (["--tokens", "inf"], ["--tokens", "inf"]),
        (["--tokens", "nan"], ["--tokens", "nan"]),
        (["--steps", "4", "--objective", "clm"], ["no encoder", "mlm30"]),
        (["--steps", "4", "--objective", "mlm"], ["masking"]),
        (["--steps", "4", "--merge", "1.5"], ["--merge", "1.5"]),
        (["--steps", "4", "--set", "peak_rl=1"], ["peak_rl", "peak_lr"]),
        (["--steps", "4", "--set", "precision=bf16"], ["GPU"]),
        (["--steps", "4", "--set", "max_length=2000"], ["max_length=2000", "96"]),
    ],
)
def test_an_option_that_cannot_be_is_refused_in_a_sentence(
    words: list[str], named: list[str], place: Path, tmp_path: Path
) -> None:
    with refused(*named):
        main(adapt(place, tmp_path / "out", *words))


def test_missing_shards_are_named_with_their_command(
    place: Path, tmp_path: Path
) -> None:
    with refused("no shards here", f"--tokenizer {place}/start"):
        main(
            [
                "adapt",
                f"{place}/start",
                "--data",
                f"{tmp_path}",
                "--steps",
                "4",
                "--out",
                f"{tmp_path}/out",
            ]
        )


def test_a_folder_that_holds_something_else_is_not_overwritten(
    place: Path, tmp_path: Path
) -> None:
    taken = tmp_path / "models/start-mlm30-4"
    taken.mkdir(parents=True)
    (taken / "notes.txt").write_text("mine")
    with refused(taken, "other files (notes.txt)", "choose another --out"):
        main(adapt(place, tmp_path, "--steps", "4"))
    assert not (tmp_path / "stages").exists()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["minilm-l6", "smollm2-135m"])
def test_real_models_become_encoders(
    name: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A BERT without a head for tokens, and a tied Llama whose mask was a separator of files."""
    if not os.environ.get("REAL_MODELS"):
        pytest.skip("REAL_MODELS is not set")
    start = Path(os.environ["REAL_MODELS"], name)
    (tmp_path / "texts.txt").write_text("\n\n".join(make_documents(200)))
    shards = [
        "--source",
        f"{tmp_path}/texts.txt",
        "--out",
        f"{tmp_path}/shards",
        "--validation-share",
        "0.05",
    ]
    main(["shards", *shards, "--tokenizer", f"{start}"])
    caplog.set_level("INFO")
    words = [
        "--data",
        f"{tmp_path}/shards",
        "--out",
        f"{tmp_path}/out",
        "--steps",
        "3",
        *SMALL,
    ]
    main(["adapt", f"{start}", *words, "--set", "eval_every=1"])
    assert ("its own" if name == "minilm-l6" else "was <file_sep>") in caplog.text
    made = capsys.readouterr().out.splitlines()[-1]
    losses = [
        row["loss"]
        for row in read_log(Path(made) / "log.jsonl")
        if row["split"] == "validation"
    ]
    assert losses[-1] < losses[0] - 0.1
    main(["check", made])


def test_start_that_changes_while_it_is_read_is_refused(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process changes weights between the hash that checkpoints record and the first step, or the merge."""
    start = Path(shutil.copytree(place / "start", tmp_path / "start"))
    weights, out = start / "model.safetensors", tmp_path / "out"
    words = adapt(place, out, "--steps", "2", start=start)
    load_weights = network.load_corrected

    def read(*given: Any) -> Any:
        model = load_weights(*given)
        started(flip, weights).join()
        return model

    with monkeypatch.context() as patch:
        patch.setattr(network, "load_corrected", read)
        with refused("changed while it was being read", "run the same command again"):
            main(words)
    assert not list(out.glob("stages/*/step-*"))
    main(words)
    flip(weights)
    with refused("has changed since", "run the same command again"):
        write_merged(start_of(str(start)), out / "models" / "start-mlm30-2", 0.5)
