"""Everything that would stop a run after it began is one sentence of a dry run, before anything is written."""

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from benchmarks.datasets.local_dataset import load_dataset
from benchmarks.finetuning.device import PRECISIONS
from benchmarks.finetuning.encoders import Encoder, load_model
from benchmarks.finetuning.heads import MEAN, POOLINGS
from benchmarks.protocol import DATASETS
from benchmarks.sweep.preflight import check_special_tokens, dry_run, run_bytes
from common.errors import UserError
from tests.benchmarks.sweep.stores import run, validate
from tests.benchmarks.tiny import make_config, untrained

FP32, BF16 = PRECISIONS["fp32"], PRECISIONS["bf16"]


def test_a_dry_run_checks_and_writes_nothing(
    arguments: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert validate(arguments) == 0
    shown = capsys.readouterr().out
    assert (
        shown.startswith("model tiny: EuroBertModel, ")
        and "\nmemory of each parallel run" in shown
    )
    assert shown.splitlines()[-1].startswith(f"{30 * len(DATASETS)} runs to do")
    assert not (tmp_path / "results").exists()


def test_activations_are_counted_per_position() -> None:
    encoders = [
        Encoder(untrained(make_config("ours", vocab=300, layers=layers)))
        for layers in (1, 3)
    ]
    (model, one), (_, three) = (run_bytes(encoder, FP32, 100) for encoder in encoders)
    assert 100 * 32 * 4 * 6 < one < three < 3 * one
    assert model == 20 * sum(
        parameter.numel() for parameter in encoders[0].parameters()
    )
    assert run_bytes(encoders[0], BF16, 100)[0] == model / 2


@pytest.mark.parametrize("name", ["sst2", "uner_en", "squad", "msmarco"])
@pytest.mark.parametrize("kind", ["ours", "roberta"])
def test_every_family_reads_an_input_of_the_largest_length(
    kind: str, name: str, data: Path, model_folder: Callable[..., Path]
) -> None:
    loaded, dataset = load_model(str(model_folder(kind))), load_dataset(data, name)
    before = {key: value.clone() for key, value in loaded.encoder.state_dict().items()}
    limit = (
        loaded.limits.paper_retrieval if name == "msmarco" else loaded.limits.labelled
    )
    for precision in (FP32, BF16):
        assert dry_run(dataset, loaded, precision, MEAN, "paper") == limit >= 500
    for key, value in loaded.encoder.state_dict().items():
        assert value.dtype == torch.float32 and torch.equal(value, before[key])


def test_too_few_positions_are_found(
    data: Path, model_folder: Callable[..., Path]
) -> None:
    loaded = load_model(str(model_folder("bert")))
    loaded = replace(loaded, limits=replace(loaded.limits, labelled=600))
    with pytest.raises(
        UserError, match="cannot read 600 tokens, the input limit for sst2"
    ):
        dry_run(load_dataset(data, "sst2"), loaded, FP32, MEAN, "paper")


def test_a_pooling_without_effect_is_found(
    data: Path, model_folder: Callable[..., Path]
) -> None:
    with pytest.raises(UserError, match="--head ours"):
        dry_run(
            load_dataset(data, "sst2"),
            load_model(str(model_folder("bert"))),
            FP32,
            POOLINGS["last"],
            "paper",
        )


def test_an_end_of_text_in_pieces_is_found(
    model_folder: Callable[..., Path], tmp_path: Path
) -> None:
    check_special_tokens(load_model(str(model_folder("ours"))))
    folder = Path(shutil.copytree(model_folder("ours"), tmp_path / "model"))
    loaded = load_model(str(folder))
    loaded.tokenizer.init_kwargs["eos_token"] = loaded.tokenizer._special_tokens_map[
        "eos_token"
    ] = "</nonesuch>"
    with pytest.raises(UserError, match="'</nonesuch>' is not a single token"):
        check_special_tokens(loaded)
    assert json.loads((folder / "config.json").read_text())["eos_token_id"] == 1


def edit(name: str, **values: object) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        content = json.loads((folder / name).read_text())
        (folder / name).write_text(json.dumps({**content, **values}))

    return change


def nothing(folder: Path) -> None:
    pass


def add_adapter(folder: Path) -> None:
    (folder / "adapter_config.json").write_text('{"peft_type": "LORA"}')


def take_custom_code(folder: Path) -> None:
    edit(
        "config.json",
        model_type="custom",
        auto_map={"AutoConfig": "c.C", "AutoModel": "c.M"},
    )(folder)
    (folder / "c.py").write_text("raise SystemExit('remote code ran')")


def take_all_ends(folder: Path) -> None:
    edit("tokenizer_config.json", eos_token=None, sep_token=None, pad_token=None)(
        folder
    )
    edit("config.json", eos_token_id=None, pad_token_id=None)(folder)


def take_the_tokenizer(folder: Path) -> None:
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (folder / name).unlink()


def make_infinite(folder: Path) -> None:
    weights = load_file(folder / "model.safetensors")
    weights["norm.weight"].fill_(float("inf"))
    save_file(weights, folder / "model.safetensors", {"format": "pt"})


def make_too_large_for_half(folder: Path) -> None:
    """Finite in float32, not in bfloat16, whose largest number is a little smaller."""
    weights = load_file(folder / "model.safetensors")
    weights["norm.weight"] = torch.full_like(
        weights["norm.weight"], torch.finfo(torch.float32).max / 8
    )
    save_file(weights, folder / "model.safetensors", {"format": "pt"})


def cut_the_vocabulary(folder: Path) -> None:
    weights = load_file(folder / "model.safetensors")
    weights["embed_tokens.weight"] = weights["embed_tokens.weight"][:300].clone()
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    edit("config.json", vocab_size=300)(folder)


FAILURES: dict[str, tuple[Callable[[Path], None], list[str], str]] = {
    "an adapter next to the weights": (
        add_adapter,
        [],
        "contains an adapter .* merge the adapter into the weights",
    ),
    "code of its own": (take_custom_code, [], "--trust-remote-code"),
    "no end of text": (take_all_ends, [], "neither an end-of-text nor a separator"),
    "weights that are no numbers": (
        make_infinite,
        [],
        "the weights norm.weight contain non-finite values",
    ),
    "outputs too large for the precision": (
        make_too_large_for_half,
        ["--precision", "bf16"],
        "are not finite in bf16",
    ),
    "a tokenizer of another model": (
        cut_the_vocabulary,
        [],
        "embedding has only 300 rows",
    ),
    "a question longer than the input": (
        nothing,
        ["--dataset", "squad", "--max-length", "12"],
        "a question alone has more than 12 tokens",
    ),
    "a model that is not there": (shutil.rmtree, [], "there is no model folder"),
    "no configuration": (
        lambda folder: (folder / "config.json").unlink(),
        [],
        "has no model config.json",
    ),
    "a class nobody knows": (
        edit("config.json", model_type="nonesuch"),
        [],
        "cannot be loaded",
    ),
    "no tokenizer": (take_the_tokenizer, [], "the tokenizer of .* cannot be loaded"),
    "no weights": (
        lambda folder: (folder / "model.safetensors").unlink(),
        [],
        "has no weights that can be read",
    ),
}


@pytest.mark.parametrize("what", FAILURES)
def test_it_is_found_before_the_first_step(
    what: str, arguments: list[str], model_folder: Callable[..., Path], tmp_path: Path
) -> None:
    change, more, message = FAILURES[what]
    folder = Path(shutil.copytree(model_folder("ours"), tmp_path / "tiny"))
    change(folder)
    words = [*arguments, "--model", str(folder), "--dataset", "sst2", *more]
    with pytest.raises(UserError, match=message) as caught:
        validate(words)
    assert "\n" not in str(caught.value) and not (tmp_path / "results").exists()


def test_the_data_that_it_is_fine_tuned_on_is_missed(
    arguments: list[str], data: Path, tmp_path: Path
) -> None:
    """`--dataset mldr_en` without MS MARCO: a dry run and `run` say which dataset needs it."""
    shutil.copytree(data / "mldr_en", tmp_path / "data/mldr_en")
    words = [*arguments, "--data", str(tmp_path / "data"), "--dataset", "mldr_en"]
    for command in (validate, run):
        with pytest.raises(
            UserError,
            match="mldr_en is evaluated with a model fine-tuned on msmarco: msmarco is not",
        ):
            command(words)
    assert not (tmp_path / "results/tiny").exists()
