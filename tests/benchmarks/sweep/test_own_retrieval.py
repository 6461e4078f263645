"""Retrieval sets of one's own: what was trained is what was scored is what the kept folder computes."""

import csv
import json
import random
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.torch import load_file, save_file
from scipy import stats
from tokenizers import normalizers, processors
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from benchmarks.commands.grid import RunOptions
from benchmarks.finetuning.own_ends import ending_tokenizer, lower_case_tokenizer
from benchmarks.runs import read_run
from common.embedding import PAPER_READING, Embedding, made_embedding
from common.errors import UserError
from tests.benchmarks.command import command
from tests.benchmarks.embedders import ST, as_embedder, ndcg, scored
from tests.benchmarks.own_datasets.test_own_pairs import NOUNS
from tests.benchmarks.tiny import BEGIN, END, make_tokenizer

VERBS = [
    "clean",
    "replace",
    "test",
    "order",
    "oil",
    "fix",
    "move",
    "lift",
    "turn",
    "paint",
    "sell",
    "wash",
]
LONGEST = 24
"""Tokens of a text: cuts half of the documents."""


@pytest.fixture(scope="module")
def manuals(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The words of a command for a set of pairs with long and short documents, imported."""
    folder = tmp_path_factory.mktemp("manuals")
    drawn = random.Random(0)
    rows = []
    for part in NOUNS:
        for verb in VERBS:
            more = drawn.choices(NOUNS, k=drawn.choice((2, 30)))
            document = f"{verb} it behind the {part}, then {' '.join(more)}."
            rows.append(f"how do I {verb} the {part}\t{document}\n")
    (folder / "pairs.tsv").write_text("".join(rows))
    definition = folder / "manuals.toml"
    definition.write_text(
        '[manuals]\nkind = "retrieval"\nfiles = {train = "pairs.tsv"}\n'
    )
    out = folder / "data"
    words = ["--datasets", str(definition)]
    assert not command("import")(["manuals", *words, "--out", str(out)])
    return [*words, "--data", str(out)]


def words_of(model: Path, store: Path, *more: str) -> list[str]:
    once = ["--lr", "5e-3", "--seed", "0", "--steps", "16"]
    on_cpu = ["--device", "cpu", "--workers", "1", "--precision", "fp32"]
    return [
        *("--model", str(model), "--name", "tiny", "--out", str(store)),
        *(*once, *on_cpu, *more),
    ]


def with_larger_weights(model: Path, out: Path) -> Path:
    """Copy a model, its matrices times ten: first tokens of a new BERT are so alike that rounding would rank texts."""
    shutil.copytree(model, out)
    weights = load_file(model / "model.safetensors")
    for name, tensor in weights.items():
        if tensor.ndim > 1:
            weights[name] = 10 * tensor
    save_file(weights, out / "model.safetensors", metadata={"format": "pt"})
    return out


@pytest.mark.parametrize("pooling", ["mean", "first", "last"])
@pytest.mark.parametrize("kind", ["ours", "llama", "bert", "qwen3", "modernbert"])
def test_kept_folder_scores_as_its_card(
    kind: str,
    pooling: str,
    manuals: list[str],
    model_folder: Callable[..., Path],
    tmp_path: Path,
) -> None:
    model = with_larger_weights(model_folder(kind), tmp_path / "model")
    words = words_of(model, tmp_path, "--pooling", pooling)
    asked = ["--keep", "best", "--max-length", str(LONGEST), "--prompts", "ask: ", ""]
    assert not command("benchmarks", "run")([*words, *manuals, *asked])
    (folder,) = (tmp_path / "encoders/tiny/IR/manuals").iterdir()
    assert ndcg(folder, manuals) == pytest.approx(scored(folder), abs=0.01)
    written = AutoTokenizer.from_pretrained(folder)
    assert written.model_max_length == LONGEST
    cut = written("the lamp " * LONGEST, truncation=True)["input_ids"]
    begin, end = written.convert_tokens_to_ids([BEGIN, END])
    assert cut[0] == begin and len(cut) == LONGEST
    assert (cut[-1] == end) == (pooling == "last")


@pytest.mark.parametrize(("steps", "query"), [(16, "paper's"), (0, "maker's")])
def test_a_set_trained_on_msmarco_is_read_as_msmarco(
    steps: int, query: str, model_folder: Callable[..., Path], tmp_path: Path
) -> None:
    start = Path(shutil.copytree(model_folder("bert"), tmp_path / "start"))
    as_embedder(start, mode="mean", prompts={"query": "seek: "}, longest=LONGEST)
    definition = tmp_path / "help.toml"
    files = (
        "{queries = 'q.tsv', corpus = 'c.tsv', validation = 'v.tsv', test = 't.tsv'}"
    )
    definition.write_text(
        f"[help]\nkind = 'retrieval'\ntrained_on = 'msmarco'\nfiles = {files}\n"
    )
    options = RunOptions(
        model=str(start), datasets=[definition], steps=steps, out=tmp_path
    )
    reading = options.request().reading("help")
    queries = {"paper's": PAPER_READING.query, "maker's": "seek: "}
    assert reading.query == queries[query]


def test_folder_of_an_embedder_is_read_as_its_maker_means(
    manuals: list[str], model_folder: Callable[..., Path], tmp_path: Path
) -> None:
    start = Path(shutil.copytree(model_folder("bert"), tmp_path / "start"))
    prompts = {"query": "seek: ", "passage": "found: "}
    as_embedder(start, mode="cls", prompts=prompts, longest=LONGEST)
    store = tmp_path / "store"
    words = words_of(start, store, "--keep", "best")
    assert not command("benchmarks", "run")([*words, *manuals])
    (run,) = (store / "results/tiny/IR/manuals").iterdir()
    about = read_run(run)["description"]
    assert about["pooling"] == "first"
    wanted = {"query": "seek: ", "document": "found: "}
    assert about["reading"].items() >= wanted.items()
    (folder,) = (store / "encoders/tiny/IR/manuals").iterdir()
    model = ST.SentenceTransformer(str(folder), device="cpu")
    assert model.max_seq_length == LONGEST
    assert model.prompts.items() >= wanted.items()


def untrained_score(model: Path, store: Path, manuals: list[str]) -> float:
    """NDCG@10 of a model as it is, in percent."""
    words = ["--model", str(model), "--name", "start", "--steps", "0"]
    asked = [*words, *manuals, "--device", "cpu", "--out", str(store)]
    assert not command("benchmarks", "run")(asked)
    (run,) = (store / "results/start/IR/manuals").iterdir()
    return 100 * float(read_run(run)["standard"]["test"]["ndcg_at_10"])


@pytest.mark.parametrize(("kind", "mode"), [("bert", "cls"), ("qwen3", "lasttoken")])
def test_adapted_embedder_keeps_pooling_and_prompts(
    kind: str,
    mode: str,
    manuals: list[str],
    model_folder: Callable[..., Path],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    start = Path(shutil.copytree(model_folder(kind), tmp_path / "start"))
    prompts = {"query": "seek: ", "document": "found: "}
    as_embedder(start, mode=mode, prompts=prompts, longest=LONGEST)
    text = (Path(manuals[1]).parent / "pairs.tsv").read_text()
    (tmp_path / "texts.txt").write_text(text.replace("\n", "\n\n"))
    shards = str(tmp_path / "shards")
    source = ["--source", str(tmp_path / "texts.txt"), "--tokenizer", str(start)]
    split = ["--validation-share", "0.1", "--workers", "0"]
    assert not command("shards")([*source, "--out", shards, *split])
    small = ("global_batch=4", f"max_length={LONGEST}", "eval_sequences=4")
    settings = [word for each in small for word in ("--set", each)]
    out = ["--data", shards, "--out", str(tmp_path / "adapted"), "--steps", "2"]
    assert not command("adapt")([str(start), *out, *settings])
    folder = Path(capsys.readouterr().out.split()[-1])
    model = ST.SentenceTransformer(str(folder), device="cpu")
    assert model[1].pooling_mode == mode
    assert model.prompts.items() >= prompts.items()
    score = untrained_score(folder, tmp_path / "store", manuals)
    assert ndcg(folder, manuals) == pytest.approx(score, abs=0.01)


def test_lower_case_is_read_and_kept_by_the_tokenizer(
    manuals: list[str], model_folder: Callable[..., Path], tmp_path: Path
) -> None:
    start = Path(shutil.copytree(model_folder("bert"), tmp_path / "start"))
    prompts = {"query": "SEEK: ", "document": "FOUND: "}
    as_embedder(start, mode="mean", prompts=prompts, longest=LONGEST)
    limits = {"max_seq_length": LONGEST, "do_lower_case": True}
    (start / "sentence_bert_config.json").write_text(json.dumps(limits))
    score = untrained_score(start, tmp_path / "store", manuals)
    assert ndcg(start, manuals) == pytest.approx(score, abs=0.01)
    words = words_of(start, tmp_path / "store", "--keep", "best")
    assert not command("benchmarks", "run")([*words, *manuals])
    (run,) = (tmp_path / "store/results/tiny/IR/manuals").iterdir()
    assert read_run(run)["description"]["reading"]["lower"]
    (folder,) = (tmp_path / "store/encoders/tiny/IR/manuals").iterdir()
    assert ndcg(folder, manuals) == pytest.approx(scored(folder), abs=0.01)
    written = AutoTokenizer.from_pretrained(folder)
    assert written("The LAMP")["input_ids"] == written("the lamp")["input_ids"]


@pytest.mark.parametrize(
    "normalizer",
    [
        None,
        normalizers.Replace("The", "A"),
        normalizers.Lowercase(),
        normalizers.Sequence([normalizers.NFD(), normalizers.StripAccents()]),
        normalizers.Sequence(
            [normalizers.Replace("The", "A"), normalizers.Lowercase()]
        ),
        normalizers.BertNormalizer(lowercase=False),
    ],
)
def test_lower_case_is_that_of_the_library(
    normalizer: Any, model_folder: Callable[..., Path], tmp_path: Path
) -> None:
    start = Path(shutil.copytree(model_folder("bert"), tmp_path / "start"))
    tokenizer = make_tokenizer(["the lamp and the valve"] * 9)
    if normalizer is not None:
        tokenizer.backend_tokenizer.normalizer = normalizer
    tokenizer.save_pretrained(start)
    modules = ST.sentence_transformer.modules
    theirs = modules.Transformer(str(start), do_lower_case=True).tokenizer
    ours = lower_case_tokenizer(AutoTokenizer.from_pretrained(start))
    for text in ("The LAMP and the Valvé", "ÀB the The", ""):
        assert ours(text)["input_ids"] == theirs(text)["input_ids"]


@pytest.mark.parametrize(
    "poolings",
    [{"pooling_mode": "max"}, {"pooling_mode_max_tokens": True}],
)
def test_pooling_that_is_not_computed_is_refused(
    poolings: dict[str, Any],
    manuals: list[str],
    model_folder: Callable[..., Path],
    tmp_path: Path,
) -> None:
    start = Path(shutil.copytree(model_folder("bert"), tmp_path / "start"))
    as_embedder(start, mode="mean", prompts={}, longest=64)
    (start / "1_Pooling/config.json").write_text(json.dumps(poolings))
    words = words_of(start, tmp_path / "store")
    with pytest.raises(UserError, match=r"is pooled by max.*--pooling"):
        command("benchmarks", "run")([*words, *manuals])


@pytest.mark.parametrize("pooling", ["mean", "lasttoken"])
@pytest.mark.parametrize("part", ["Dense", "LayerNorm", "custom.Transformer"])
def test_module_behind_the_pooling_is_refused_by_name(
    part: str,
    pooling: str,
    manuals: list[str],
    model_folder: Callable[..., Path],
    tmp_path: Path,
) -> None:
    """A folder with its own length is read; of another module nothing would be left in the kept folder."""
    start = Path(shutil.copytree(model_folder("bert"), tmp_path / "start"))
    as_embedder(start, mode=pooling, prompts={}, longest=LONGEST)
    listed = json.loads((start / "modules.json").read_text())
    length = {"path": "3_Normalize", "type": "sentence_transformers.models.Normalize"}
    (start / "modules.json").write_text(json.dumps([*listed, length]))
    before = made_embedding(start)
    assert before.pooling == {"mean": "mean", "lasttoken": "last"}[pooling]
    kind = part if "." in part else f"sentence_transformers.models.{part}"
    more = [*listed, {"path": f"2_{part}", "type": kind}, length]
    (start / "modules.json").write_text(json.dumps(more))
    words = [*words_of(start, tmp_path / "store"), *manuals]
    name = part.rpartition(".")[2]
    with pytest.raises(UserError, match=rf"{before.pooling}, then {name},.*--pooling"):
        command("benchmarks", "run")(words)
    assert not command("benchmarks", "run")([*words, "--pooling", "last"])
    (run,) = (tmp_path / "store/results/tiny/IR/manuals").iterdir()
    ends = read_run(run)["description"]["reading"].get("ends", False)
    assert ends == (pooling == "mean")


def test_prompt_that_is_not_pooled_is_refused_where_there_is_one(
    model_folder: Callable[..., Path], tmp_path: Path
) -> None:
    start = Path(shutil.copytree(model_folder("bert"), tmp_path / "start"))
    for prompts, wanted in (
        ({}, "mean"),
        ({"query": "q: "}, "mean without the prompt"),
    ):
        as_embedder(start, mode="mean", prompts=prompts, longest=64)
        file = start / "1_Pooling/config.json"
        config = json.loads(file.read_text()) | {"include_prompt": False}
        file.write_text(json.dumps(config))
        assert made_embedding(start).pooling == wanted


@pytest.mark.parametrize("content", ["[3]", "{}"])
def test_damaged_list_of_modules_is_refused(content: str, tmp_path: Path) -> None:
    (tmp_path / "modules.json").write_text(content)
    with pytest.raises(UserError, match=r"modules\.json is not a .*list"):
        made_embedding(tmp_path)


def test_plain_folder_says_nothing(model_folder: Callable[..., Path]) -> None:
    assert made_embedding(model_folder("llama")) == Embedding()


def test_first_part_of_an_older_folder_is_read_with_its_pooling(tmp_path: Path) -> None:
    parts = [
        {"path": "0_Transformer", "type": "sentence_transformers.models.Transformer"},
        {"path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
    ]
    (tmp_path / "modules.json").write_text(json.dumps(parts))
    for part, name, content in (
        ("0_Transformer", "sentence_bert_config", {"max_seq_length": 128}),
        ("1_Pooling", "config", {"pooling_mode_cls_token": True}),
    ):
        (tmp_path / part).mkdir()
        (tmp_path / part / f"{name}.json").write_text(json.dumps(content))
    made = made_embedding(tmp_path / "0_Transformer")
    assert made == Embedding(pooling="first", longest=128)


def template(single: str) -> PreTrainedTokenizerFast:
    """A tokenizer with these special tokens around a text; none for an empty word."""
    tokenizer = make_tokenizer(["the lamp and the valve"] * 9, begin=False)
    if single:
        numbers = [(BEGIN, 0), (END, 1)]
        tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(
            single=single, special_tokens=numbers
        )
    return tokenizer


@pytest.mark.parametrize(
    ("single", "first"),
    [("", []), (f"{BEGIN} $A", [0]), (f"{BEGIN} $A {END}", [0]), (f"$A {END}", [])],
)
def test_every_text_ends_once(single: str, first: list[int]) -> None:
    tokenizer = template(single)
    ended = ending_tokenizer(tokenizer, alone=False)
    text = tokenizer("the lamp", add_special_tokens=False)["input_ids"]
    assert ended("the lamp")["input_ids"] == [*first, *text, 1]
    cut = ended("the lamp " * 50, truncation=True, max_length=7)["input_ids"]
    assert cut[-1] == 1 and len(cut) == 7
    alone = ending_tokenizer(tokenizer, alone=True)("the lamp")["input_ids"]
    np.testing.assert_array_equal(alone, [*text, 1])


def test_yardsticks_are_rows_of_the_store(
    manuals: list[str],
    model_folder: Callable[..., Path],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """What costs nothing: the words, and the start as it is, one run of each."""
    start = model_folder("bert")
    for words in (
        ["--model", "bm25"],
        ["--model", str(start), "--name", "start", "--steps", "0", "--device", "cpu"],
    ):
        asked = [*words, *manuals, "--out", str(tmp_path)]
        assert not command("benchmarks", "run")(asked)
        assert not command("benchmarks", "run")(asked)  # there is nothing left to do
    assert "bm25: 1 of 1 runs done" in capsys.readouterr().out
    found = {
        path.parents[3].name: read_run(path.parent)
        for path in (tmp_path / "results").rglob("run.json")
    }
    assert set(found) == {"bm25", "start"}
    words_alone = found["bm25"]["standard"]["test"]["ndcg_at_10"]
    assert 0.8 < words_alone <= 1 and found["bm25"]["steps"] == 0
    as_it_is = 100 * found["start"]["standard"]["test"]["ndcg_at_10"]
    embedder = Path(shutil.copytree(start, tmp_path / "embedder"))
    as_embedder(embedder, mode="mean", prompts={}, longest=512)
    assert ndcg(embedder, manuals) == pytest.approx(as_it_is, abs=0.01)


def test_what_needs_training_is_not_scored_without(
    model_folder: Callable[..., Path], tmp_path: Path, data: Path
) -> None:
    words = words_of(model_folder("bert"), tmp_path, "--data", str(data))
    words[words.index("--steps") + 1] = "0"
    with pytest.raises(UserError, match="without training, and sst2 is none"):
        command("benchmarks", "run")([*words, "--dataset", "sst2"])


def test_closing_step_has_knobs(
    manuals: list[str], model_folder: Callable[..., Path], tmp_path: Path
) -> None:
    """Of 108 pairs, two passes in batches of 16 are fourteen steps."""
    words = words_of(model_folder("bert"), tmp_path)
    at = words.index("--steps")
    knobs = ["--epochs", "2", "--batch", "16", "--temperature", "0.2"]
    asked = [*words[:at], *words[at + 2 :], *knobs, *manuals]
    assert not command("benchmarks", "run")(asked)
    (path,) = (tmp_path / "results").rglob("run.json")
    made = read_run(path.parent)
    tuning = made["description"]["tuning"]
    assert (tuning["batch"], tuning["temperature"], made["steps"]) == (16, 0.2, 14)
    for wrong in (["--steps", "3"], ["--batch", "6"]):
        with pytest.raises(UserError):
            command("benchmarks", "run")([*asked, *wrong])


@pytest.fixture(scope="module")
def compared(
    manuals: list[str],
    model_folder: Callable[..., Path],
    tmp_path_factory: pytest.TempPathFactory,
) -> Path:
    """A store with three seeds, their kept encoder, and what costs nothing."""
    store = tmp_path_factory.mktemp("store")
    for words in (
        words_of(model_folder("bert"), store, "--seed", "1", "2", "--keep", "best"),
        ["--model", "bm25", "--out", str(store)],
    ):
        assert not command("benchmarks", "run")([*words, *manuals])
    return store


def by_query(store: Path, model: str) -> np.ndarray:
    """NDCG@10 of each run on each test query, in percent, (runs, queries)."""
    paths = sorted((store / "results" / model).rglob("details.json"))
    details = [json.loads(path.read_text()) for path in paths]
    return 100 * np.array([each["standard"]["test"]["ndcg_at_10"] for each in details])


def test_seeds_and_queries_both_make_the_interval(
    compared: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Against the estimate of two crossed random factors, by hand; BM25 has no seeds."""
    ours, words_alone = by_query(compared, "tiny"), by_query(compared, "bm25")
    assert len(ours) == 3 and len(words_alone) == 1
    apart = ours - words_alone
    seeds, queries = apart.shape
    over_seeds = apart.mean(axis=1).var(ddof=1) / seeds
    covariance = np.cov(apart) / queries
    shared = covariance.sum() - np.trace(covariance)
    over_queries = max(0.0, shared / (seeds * (seeds - 1)))
    total = over_seeds + over_queries
    df = total**2 / (over_seeds**2 / (seeds - 1) + over_queries**2 / (queries - 1))
    half = stats.t.ppf(0.975, df) * np.sqrt(total)
    command("compare")(["bm25", "tiny", "--source", str(compared), "--format", "csv"])
    (row,) = csv.DictReader(capsys.readouterr().out.splitlines())
    found = [float(row[name]) for name in ("effect", "low", "high")]
    effect = -apart.mean()
    assert found == pytest.approx([effect, effect - half, effect + half], abs=0.02)


def test_card_counts_queries(compared: Path) -> None:
    (folder,) = (compared / "encoders/tiny/IR/manuals").iterdir()
    assert "interval over seeds and 6 queries" in (folder / "README.md").read_text()


def test_dry_run_says_hours_and_writes_nothing(
    manuals: list[str],
    model_folder: Callable[..., Path],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = words_of(model_folder("bert"), tmp_path / "store", "--dry-run")
    assert not command("benchmarks", "run")([*words, *manuals])
    said = capsys.readouterr().out
    assert re.search(r"a step reads [\d,]+ tokens; all runs take about \S+ hours", said)
    at_no_cost = ["--model", "bm25", "--out", str(tmp_path / "store"), "--dry-run"]
    assert not command("benchmarks", "run")([*at_no_cost, *manuals])
    assert not (tmp_path / "store").exists()
