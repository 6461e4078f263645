"""The best run's weights are kept in a folder that plain transformers loads, and that scores what the store says."""

import ast
import errno
import functools
import json
import math
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from safetensors import SafetensorError
from transformers import AutoTokenizer, PreTrainedTokenizerFast, T5Config, T5Model

from benchmarks.datasets.local_dataset import load_dataset
from benchmarks.protocol import DATASETS, Dataset
from benchmarks.results_json import read_results
from benchmarks.runs import SCORED_SPLITS, RunKey
from benchmarks.sweep import run_store
from benchmarks.sweep.keep import Keeper
from benchmarks.sweep.run_store import RunStore
from benchmarks.sweep.status import COMPLETE
from common.errors import UserError
from common.files import temporary_name
from tests.benchmarks.sweep.stores import replaced, results, run, words_of
from tests.commands import started
from tests.results import write_results

KEEP = ["--keep", "best"]


def kept(store: Path, name: str, known: dict[str, Dataset] | None = None) -> Path:
    """The one folder of a cell, that of the best run."""
    dataset = (known or DATASETS)[name]
    key = RunStore(store, {dataset.name: dataset}).best("tiny", dataset.name)
    assert key is not None
    folder = RunStore(store).kept_folder(key)
    assert [path.name for path in folder.parent.iterdir()] == [folder.name]
    return folder


def stored(store: Path, name: str) -> Any:
    """The test scores of the best run, as its results.json has them."""
    key = RunStore(store).best("tiny", name)
    assert key is not None
    return read_results(RunStore(store).folder(key) / "results.json")[1]


def plain(folder: Path) -> Any:
    """The model as transformers' own class, which is not ours."""
    kind = getattr(
        transformers,
        json.loads((folder / "config.json").read_text())["architectures"][0],
    )
    assert kind.__module__.startswith("transformers.models.")
    model, info = kind.from_pretrained(folder, output_loading_info=True)
    assert not info["missing_keys"] and not info["unexpected_keys"]
    return model.eval()


@torch.enable_grad()  # under tests that compute without
def keep(words: list[str]) -> None:
    """Run a command that keeps the best runs."""
    assert run([*words, *KEEP]) == COMPLETE


def two_runs(model: Path, data: Path, store: Path, *names: str) -> list[str]:
    """A command of two runs on each dataset."""
    return [
        *words_of(model, data, store, steps=6),
        "--lr",
        "1e-3",
        "5e-3",
        "--seed",
        "0",
        "--dataset",
        *names,
    ]


Kept = Callable[..., Path]


@pytest.fixture(scope="module")
def kept_by(
    model_folder: Callable[..., Path],
    data: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Kept:
    """A function that keeps the best runs of a kind of model on some datasets, once, and returns the store."""

    @functools.cache
    def make(kind: str, *names: str, pooling: str = "mean") -> Path:
        store = tmp_path_factory.mktemp(kind)
        keep([*two_runs(model_folder(kind), data, store, *names), "--pooling", pooling])
        return store

    return make


@torch.no_grad()
@pytest.mark.parametrize(
    ("kind", "own_class", "pooling"),
    [
        ("ours", "EuroBertForSequenceClassification", "mean"),
        ("llama", "EuroBertForSequenceClassification", "mean"),
        ("ours", "EuroBertForSequenceClassification", "late"),
        ("ours", "EuroBertModel", "last"),
        ("qwen3", "Qwen3Model", "mean"),
        ("qwen3", "Qwen3Model", "late"),
        ("bert", "BertForSequenceClassification", "mean"),
        ("modernbert", "ModernBertForSequenceClassification", "mean"),
    ],
)
def test_a_classifier_scores_the_same_in_plain_transformers(
    kind: str, own_class: str, pooling: str, kept_by: Kept, data: Path
) -> None:
    folder = kept(store := kept_by(kind, "sst2", pooling=pooling), "sst2")
    model, test = plain(folder), load_dataset(data, "sst2").tables["test"]
    assert type(model).__name__ == own_class
    tokenizer = AutoTokenizer.from_pretrained(folder)
    code = re.search(
        r"```python\n(.*?)```", (folder / "README.md").read_text(), re.DOTALL
    )
    assert code is not None
    names = list(load_dataset(data, "sst2").labels)
    for text, gold, score in zip(
        test["first"].to_pylist(),
        test["label"].to_pylist(),
        stored(store, "sst2").scores,
        strict=True,
    ):
        # The head is beside it, and the card says how to use it
        if own_class.endswith("Model"):
            space: dict[str, Any] = {}
            exec(
                code[1].replace("FOLDER", str(folder)).replace('"a text"', repr(text)),
                space,
            )
            predicted = int(space["logits"].argmax())
        else:
            logits = model(**tokenizer(text, return_tensors="pt")).logits
            predicted = int(logits.argmax())
            assert model.config.id2label[predicted] == names[predicted]
        assert (predicted == gold) == bool(score)


@torch.no_grad()
@pytest.mark.parametrize("kind", ["ours", "llama", "bert"])
def test_plain_transformers_give_kept_tags_and_answers(
    kind: str, kept_by: Kept, data: Path, tmp_path: Path
) -> None:
    store = kept_by(kind, "uner_en", "squad")
    for name, labels in (
        ("uner_en", load_dataset(data, "uner_en").labels),
        ("squad", ("outside", "inside")),
    ):
        model = plain(kept(store, name))
        assert type(model).__name__.endswith("ForTokenClassification")
        assert tuple(model.config.id2label[i] for i in range(len(labels))) == labels
    code = re.search(
        r"```python\n(.*?)```",
        (kept(store, "squad") / "README.md").read_text(),
        re.DOTALL,
    )
    assert code is not None
    row = load_dataset(data, "squad").tables["test"].slice(0, 1).to_pylist()[0]
    text = code[1].replace("FOLDER", str(kept(store, "squad")))
    text = text.replace('"a question"', repr(row["question"]))
    text = text.replace('"a text with the answer"', repr(row["context"]))
    if kind == "ours":  # in a process that does not know this package
        alone = [sys.executable, "-I", "-c", text]
        said = subprocess.run(
            alone, capture_output=True, text=True, cwd=tmp_path, check=True
        ).stdout
        assert ast.literal_eval(said)[1] in row["context"]
    else:
        space: dict[str, Any] = {}
        exec(text, space)
        assert space["best"][1] in row["context"]
    batch = AutoTokenizer.from_pretrained(kept(store, "uner_en"))(
        "a b", return_tensors="pt"
    )
    # The end of text, no beginning
    assert batch["input_ids"][0, -1] == 1 and 0 not in batch["input_ids"]


def dcg(relevance: list[float]) -> float:
    return sum(
        (2**value - 1) / math.log2(place + 2)
        for place, value in enumerate(relevance[:10])
    )


def ndcg(queries: Any, documents: Any, local: Any) -> list[float]:
    """NDCG@10 of each test query among the judged documents, from vectors, with binary or graded relevance."""
    ids, scores = local.corpus["id"].to_pylist(), []
    relevant: dict[str, dict[str, int]] = {}
    for row in local.qrels("test").to_pylist():
        relevant.setdefault(row["query_id"], {})[row["doc_id"]] = row["relevance"]
    for query, vector in zip(
        local.queries("test")["id"].to_pylist(), queries, strict=True
    ):
        order = np.argsort(-(documents @ vector), kind="stable")[:10]
        gains = [float(relevant[query].get(ids[i], 0)) for i in order]
        # The paper's ideal is that of the ten that were retrieved.
        ideal = dcg(sorted(gains, reverse=True))
        scores.append(dcg(gains) / ideal if ideal else 0.0)
    return scores


@torch.no_grad()
@pytest.mark.parametrize("kind", ["ours", "llama", "bert"])
def test_a_retrieval_encoder_gives_the_stores_ndcg(
    kind: str, kept_by: Kept, data: Path
) -> None:
    store = kept_by(kind, "msmarco")
    folder, local = kept(store, "msmarco"), load_dataset(data, "msmarco")
    prompts = json.loads((folder / "config_sentence_transformers.json").read_text())[
        "prompts"
    ]
    asked = [
        prompts["query"] + text for text in local.queries("test")["text"].to_pylist()
    ]
    texts = [prompts["document"] + text for text in local.corpus["text"].to_pylist()]
    model, tokenizer = plain(folder), AutoTokenizer.from_pretrained(folder)

    def encode(given: list[str]) -> Any:
        batch = tokenizer(
            [text.strip() for text in given], padding=True, return_tensors="pt"
        )
        hidden, mask = (
            model(**batch).last_hidden_state,
            batch["attention_mask"][..., None],
        )
        vectors = (hidden * mask).sum(1) / mask.sum(1)
        return torch.nn.functional.normalize(vectors, dim=1).numpy()

    want = stored(store, "msmarco").scores
    assert len(set(want)) > 1
    assert ndcg(encode(asked), encode(texts), local) == pytest.approx(want, abs=1e-6)
    pooling = json.loads((folder / "1_Pooling" / "config.json").read_text())
    assert (
        pooling["pooling_mode"] == "mean"
        and pooling["pooling_mode_mean_tokens"] is True
    )
    if kind == "llama":
        config = json.loads((folder / "config.json").read_text())
        assert (
            config["is_causal"] is False
            and config["use_bidirectional_attention"] is True
        )


def test_sentence_transformers_gives_the_stores_ndcg(kept_by: Kept, data: Path) -> None:
    library = pytest.importorskip("sentence_transformers")
    store = kept_by("llama", "msmarco")
    folder, local = kept(store, "msmarco"), load_dataset(data, "msmarco")
    model = library.SentenceTransformer(str(folder), device="cpu")
    queries = model.encode_query(
        local.queries("test")["text"].to_pylist(), normalize_embeddings=True
    )
    documents = model.encode_document(
        local.corpus["text"].to_pylist(), normalize_embeddings=True
    )
    want = stored(store, "msmarco").scores
    assert ndcg(queries, documents, local) == pytest.approx(want, abs=1e-6)


def test_scores_do_not_depend_on_it_and_old_runs_are_repeated(
    model_folder: Callable[..., Path], data: Path, tmp_path: Path
) -> None:
    words = two_runs(
        model_folder("ours"), data, tmp_path / "a", "sst2", "msmarco", "nq"
    )
    assert run(words) == COMPLETE
    keep(replaced(words, "--out", tmp_path / "b"))
    assert results(tmp_path / "a") == results(tmp_path / "b")
    before = {
        path: path.stat().st_mtime_ns
        for path in (tmp_path / "a/results").rglob("run.json")
    }
    keep(words)
    assert {path: path.stat().st_mtime_ns for path in before} == before
    for name in ("sst2", "msmarco", "nq"):
        a, b = kept(tmp_path / "a", name), kept(tmp_path / "b", name)
        for path in (path for path in a.rglob("*") if path.is_file()):
            assert path.read_bytes() == (b / path.relative_to(a)).read_bytes(), path


def test_a_better_run_replaces_it_and_a_worse_one_does_not(
    model_folder: Callable[..., Path], data: Path, tmp_path: Path
) -> None:
    words = two_runs(model_folder("ours"), data, tmp_path, "sst2")
    words.remove("5e-3")
    seen = set()
    for rate in ("1e-9", "5e-3", "1e-8", "1e-2"):
        keep(replaced(words, "--lr", rate))
        seen.add(kept(tmp_path, "sst2").name)
    assert len(seen) >= 2


def test_what_others_put_next_to_it_stays(
    model_folder: Callable[..., Path], data: Path, tmp_path: Path
) -> None:
    words = two_runs(model_folder("ours"), data, tmp_path, "sst2")
    words.remove("5e-3")
    keep(replaced(words, "--lr", "1e-9"))
    first = kept(tmp_path, "sst2")
    cell = first.parent
    shutil.copytree(first, tmp_path / "elsewhere")
    (cell / "lr3e-03_sd0").symlink_to(tmp_path / "elsewhere")
    (cell / "lr4e-03_sd0").mkdir()
    (cell / ".git").mkdir()
    (cell / ".DS_Store").touch()
    theirs = {path.name for path in cell.iterdir()} - {first.name}
    (
        cell / temporary_name(first.name).replace(f"-{os.getpid()}-", "-4194304-")
    ).mkdir()  # above any process
    shutil.rmtree(first)
    keep([*words, "--seed", "0"])
    best = RunStore(tmp_path).best("tiny", "sst2")
    assert best is not None
    assert {path.name for path in cell.iterdir()} == {
        *theirs,
        RunStore(tmp_path).kept_folder(best).name,
    }
    assert (tmp_path / "elsewhere" / "manifest.json").is_file()


def of_their_own(folder: Path) -> dict[str, bytes]:
    """Put an exported model into a kept encoder, and change its card."""
    (folder / "onnx").mkdir()
    (folder / "onnx/model.onnx").write_bytes(b"exported")
    with (folder / "README.md").open("a") as card:
        card.write("What I found with it.\n")
    return {
        name: (folder / name).read_bytes() for name in ("onnx/model.onnx", "README.md")
    }


def die_while_it_removes(words: list[str], folder: Path) -> None:
    """Run a command in a process that dies once it has removed the second file of a folder."""
    unlink, removed = Path.unlink, []

    def counted(path: Path, **options: bool) -> None:
        unlink(path, **options)
        if path.parent == folder:
            removed.append(path)
        if len(removed) == 2:
            os._exit(9)

    Path.unlink = counted  # type: ignore[method-assign]
    run(words)


@pytest.mark.parametrize("dies", [False, True])
def test_what_its_user_put_into_a_replaced_encoder_stays(
    model_folder: Callable[..., Path],
    data: Path,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    dies: bool,
) -> None:
    words = two_runs(model_folder("ours"), data, tmp_path, "sst2")
    words.remove("5e-3")
    keep(replaced(words, "--lr", "1e-9"))
    first = kept(tmp_path, "sst2")
    theirs = of_their_own(first)
    better = [*words, "--seed", "0", *KEEP]
    if dies:
        process = started(die_while_it_removes, better, first)
        process.join()
        assert process.exitcode == 9
        assert {name: (first / name).read_bytes() for name in theirs} == theirs
    assert run(better) == COMPLETE
    best = RunStore(tmp_path).best("tiny", "sst2")
    assert best is not None and RunStore(tmp_path).kept_folder(best) != first
    assert {name: (first / name).read_bytes() for name in theirs} == theirs
    if not dies:
        assert (
            f"{first}: a better run" in caplog.text
            and "README.md, onnx/model.onnx" in caplog.text
        )
        assert {path.name for path in first.rglob("*") if path.is_file()} == {
            "README.md",
            "model.onnx",
        }


def test_a_changed_card_stays_and_is_named(
    model_folder: Callable[..., Path],
    data: Path,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    words = two_runs(model_folder("ours"), data, tmp_path, "sst2")
    keep(words)
    theirs = of_their_own(folder := kept(tmp_path, "sst2"))
    keep([*words, "--seed", "1"])
    assert {name: (folder / name).read_bytes() for name in theirs} == theirs
    assert f"{folder}/README.md was changed, so it stays" in caplog.text


def test_damaged_encoder_with_its_users_files_is_not_remade(
    model_folder: Callable[..., Path], data: Path, tmp_path: Path
) -> None:
    words = two_runs(model_folder("ours"), data, tmp_path, "sst2")
    keep(words)
    theirs = of_their_own(folder := kept(tmp_path, "sst2"))
    (folder / "model.safetensors").write_bytes(b"damaged")
    with pytest.raises(
        UserError,
        match=r"holds README\.md, onnx/model\.onnx, which --keep did not write",
    ):
        run([*words, *KEEP])
    assert {name: (folder / name).read_bytes() for name in theirs} == theirs


def killed(words: list[str], *, as_tried: bool) -> None:
    """Run a command in a process that dies once the weights are written, as they are tried or as they are kept."""
    write = Keeper.write

    def die(self: Keeper, name: str, model: Any, folder: Path) -> str:
        kind = write(self, name, model, folder)
        if as_tried == (".keep." in str(folder)):
            os._exit(9)
        return kind

    Keeper.write = die  # type: ignore[method-assign]
    run(words)


@pytest.mark.parametrize("as_tried", [True, False])
def test_a_process_that_is_killed_while_it_keeps_loses_nothing(
    model_folder: Callable[..., Path],
    kept_by: Kept,
    data: Path,
    tmp_path: Path,
    as_tried: bool,
) -> None:
    whole = kept_by("ours", "sst2")
    other = [*two_runs(model_folder("ours"), data, tmp_path, "sst2"), *KEEP]
    process = started(functools.partial(killed, as_tried=as_tried), other)
    process.join()
    assert process.exitcode == 9 and list(tmp_path.rglob("*.tmp"))
    # The run's scores are there, its weights are not
    assert len(results(tmp_path)) == (not as_tried)
    assert run(other) == COMPLETE
    assert not list(tmp_path.rglob("*.tmp"))
    a, b = kept(whole, "sst2"), kept(tmp_path, "sst2")
    names = (
        "model.safetensors",
        "config.json",
        "tokenizer.json",
        "manifest.json",
        "README.md",
    )
    assert a.name == b.name and all(
        (a / name).read_bytes() == (b / name).read_bytes() for name in names
    )
    (b / "model.safetensors").write_bytes(b"damaged")
    assert run(other) == COMPLETE
    assert (a / "model.safetensors").read_bytes() == (
        b / "model.safetensors"
    ).read_bytes()


def test_the_card_has_scores_interval_data_and_licences(
    model_folder: Callable[..., Path], data: Path, tmp_path: Path
) -> None:
    start = tmp_path / "start"
    shutil.copytree(model_folder("ours"), start)
    (start / "README.md").write_text("---\nlicense: apache-2.0\n---\n# A start\n")
    words = two_runs(start, data, tmp_path / "s", "qqp")
    keep([*words, "--seed", "1"])
    card = (kept(tmp_path / "s", "qqp") / "README.md").read_text()
    assert "apache-2.0" in card and load_dataset(data, "qqp").manifest.licence in card
    assert f"{100 * stored(tmp_path / 's', 'qqp').score:.2f}" in card
    assert "Question 1: FIRST\\nQuestion 2: SECOND" in card
    from scipy import stats

    tests = []
    for seed in (0, 1):
        runs = [
            read_results(
                tmp_path / "s" / f"results/tiny/SC/qqp/lr{rate}_sd{seed}/results.json"
            )
            for rate in ("1e-03", "5e-03")
        ]
        tests.append(100 * max(runs, key=lambda pair: pair[0].score)[1].score)
    low, _ = (
        stats.t.interval(0.95, 1, loc=np.mean(tests), scale=stats.sem(tests))
        if tests[0] != tests[1]
        else (tests[0], 0)
    )
    assert f"{np.mean(tests):.2f} ± {np.mean(tests) - low:.2f}" in card


def refused(words: list[str], *parts: str) -> None:
    """A command that keeps is refused in one sentence with these parts, and leaves no folder behind."""
    store = Path(words[words.index("--out") + 1])
    before = sorted(store.rglob("*"))
    for more in ([], ["--dry-run"]):
        with pytest.raises((UserError, OSError)) as error:
            run([*words, *KEEP, *more])
        assert "\n" not in str(error.value) and all(
            part in str(error.value) for part in parts
        ), error.value
    left = {
        path
        for path in store.rglob("*")
        if path not in before and path.parent.name != "locks"
    }
    assert not {path for path in left if path.is_dir()} - {
        store / "asked",
        store / "asked/tiny",
        store / "locks",
    }


@pytest.fixture
def words(model_folder: Callable[..., Path], data: Path, tmp_path: Path) -> list[str]:
    """A command of two runs."""
    return two_runs(model_folder("llama"), data, tmp_path, "sst2")


def test_an_unknown_value_names_the_known_ones(
    words: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(UserError, match="best"):
        run([*words, "--keep", "worst"])


FOLDER = "benchmarks.finetuning.plain_folder"
FULL = shutil._ntuple_diskusage(10**9, 10**9, 10)


@pytest.mark.parametrize(
    ("place", "instead", "said"),
    [
        (
            "shutil.disk_usage",
            lambda place: FULL,
            ("GB free", "--keep best needs", "--dataset"),
        ),
        ("os.access", lambda place, mode: False, ("cannot be written", "--out")),
        (
            "benchmarks.finetuning.own_ends._template",
            lambda before, *_: before,
            ("tokenizer", "reads", "--keep"),
        ),
    ],
)
def test_what_cannot_be_kept_is_said_before_anything_is_computed(
    place: str,
    instead: Any,
    said: tuple[str, ...],
    words: list[str],
    tmp_path: Path,
    monkeypatch: Any,
) -> None:
    monkeypatch.setattr(place, instead)
    refused(words, *said)
    assert not results(tmp_path)


def test_code_of_strangers_is_not_kept(words: list[str]) -> None:
    refused([*words, "--trust-remote-code"], "--trust-remote-code", "without code")


def test_cells_of_a_release_are_refused(words: list[str], tmp_path: Path) -> None:
    key = RunKey(model="tiny", dataset="sst2", lr=1e-3, seed=0)
    write_results(tmp_path, key, {"validation": [1.0, 0.0], "test": [1.0, 0.0]})
    refused(words, "does not record what it was made from", "--out")


def test_half_an_encoder_decoder_is_refused(
    data: Path, tmp_path: Path, tokenizer: PreTrainedTokenizerFast
) -> None:
    config = T5Config(
        vocab_size=len(tokenizer),
        d_model=32,
        d_kv=8,
        d_ff=64,
        num_layers=2,
        num_heads=4,
    )
    T5Model(config).save_pretrained(tmp_path / "t5")
    tokenizer.save_pretrained(tmp_path / "t5")
    refused(
        two_runs(tmp_path / "t5", data, tmp_path, "sst2"),
        "encoder of an encoder-decoder",
        "--keep",
    )


def test_something_else_in_its_place_is_not_touched(
    words: list[str], tmp_path: Path
) -> None:
    assert run(words) == COMPLETE
    key = RunStore(tmp_path).best("tiny", "sst2")
    assert key is not None
    (folder := RunStore(tmp_path).kept_folder(key)).mkdir(parents=True)
    (folder / "notes.txt").write_text("mine")
    with pytest.raises(
        UserError, match=r"sst2.* holds notes\.txt, which --keep did not write; move it"
    ):
        run([*words, *KEEP])
    assert (folder / "notes.txt").read_text() == "mine"


def test_a_full_disk_leaves_the_scores_and_no_half_of_a_folder(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(self: Keeper, name: str, model: Any, folder: Path) -> str:
        if ".keep." in str(folder):
            return "Model"
        (folder / "config.json").write_text("{}")
        raise OSError(
            errno.ENOSPC, "No space left on device", str(folder / "model.safetensors")
        )

    with monkeypatch.context() as patched:
        patched.setattr(Keeper, "write", full)
        with pytest.raises(
            OSError, match=r"No space left.*encoders/tiny/SC/sst2/lr1e-03_sd0'"
        ):
            run([*words, *KEEP])
    assert len(results(tmp_path)) == 1 and not list(
        (tmp_path / "encoders/tiny/SC/sst2").iterdir()
    )
    keep(words)
    assert plain(kept(tmp_path, "sst2"))


def test_a_quota_is_said_before_anything_is_trained(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def over(self: Keeper, name: str, model: Any, folder: Path) -> str:
        raise SafetensorError("I/O error: Disk quota exceeded (os error 122)")

    monkeypatch.setattr(Keeper, "write", over)
    with pytest.raises(UserError, match=r"no room.*Disk quota exceeded.*make room"):
        run([*words, *KEEP])
    assert not results(tmp_path)


def test_best_run_of_an_own_dataset_is_by_the_compared_metric(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`compare` reads the definition's metric of such a dataset, of which the paper says none."""
    sst2 = DATASETS["sst2"]
    own = replace(
        sst2,
        name="mine",
        headline="f1",
        files=replace(sst2.files, content="its definition"),
    )
    by_seed = {0: (0.9, 0.2), 1: (0.5, 0.7)}  # accuracy, F1

    def record(folder: Path) -> dict[str, Any]:
        return {
            "standard": {
                split: {"f1": by_seed[int(folder.name[-1])][1]}
                for split in SCORED_SPLITS
            }
        }

    monkeypatch.setattr(run_store, "record_of", record)
    for dataset, best in ((sst2, 0), (own, 1)):
        for seed, (accuracy, _) in by_seed.items():
            key = RunKey(
                model="tiny", dataset=dataset.name, lr=1e-4, seed=seed, task="SC"
            )
            write_results(tmp_path, key, {split: [accuracy] for split in SCORED_SPLITS})
        found = RunStore(tmp_path, {dataset.name: dataset}).best("tiny", dataset.name)
        assert found is not None and found.seed == best
