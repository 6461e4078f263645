"""A run is what it says it is, wherever it is kept: what was exchanged, copied or made up is noticed."""

import json
import os
import random
import shutil
import stat
import zipfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import f1_score

from analysis.sources import open_source
from analysis.store.ingest import blind_score, ingest
from analysis.store.runs_table import read_runs
from benchmarks.protocol import DATASETS
from benchmarks.runs import DETAILS, RESULTS, RUN, cell_keys, results_text
from clm_or_mlm.__main__ import main
from common.errors import UserError
from tests.analysis.stores import MODELS, fill_sealed, run_folder
from tests.sealed import seal


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fill_sealed(tmp_path_factory.mktemp("whole"))


@pytest.fixture
def sealed(whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of it to change."""
    monkeypatch.setenv("CLM_OR_MLM_CACHE", str(tmp_path / "cache"))
    return Path(shutil.copytree(whole, tmp_path / "store"))


def of(store: Path, name: str = "lr1e-04_sd0", model: int = 0) -> Path:
    return run_folder(store, "uner_en", name, MODELS[model])


def exchange(first: Path, second: Path) -> None:
    aside = first.with_name("aside")
    first.rename(aside)
    second.rename(first)
    aside.rename(second)


def replicate(first: Path, second: Path) -> None:
    shutil.rmtree(second)
    shutil.copytree(first, second)


def perfect(folder: Path) -> None:
    sizes = {
        split: len(part["scores_i"])
        for split, part in json.loads((folder / RESULTS).read_text()).items()
    }
    (folder / RESULTS).write_text(
        results_text({split: [1.0] * size for split, size in sizes.items()})
    )


def perfect_and_bare(store: Path, names: tuple[str, ...]) -> None:
    perfect(of(store))
    for name in names:
        (of(store) / name).unlink()


def edited(store: Path) -> None:
    path = of(store) / RUN
    path.write_text(path.read_text().replace('"seed": 0', '"seed": 3'))


def resealed(store: Path) -> None:
    replicate(of(store), of(store, "lr1e-04_sd1"))
    seal(of(store, "lr1e-04_sd1"))


DONE: dict[str, tuple[Callable[[Path], object], str]] = {
    # what is done to the store: words of the sentence
    "seeds exchanged": (lambda s: exchange(of(s), of(s, "lr1e-04_sd1")), "its seed is 1, not 0"),
    "rates exchanged": (lambda s: exchange(of(s), of(s, "lr5e-04_sd0")), "its lr is 0.0005, not 0.0001"),
    "one run of each model exchanged": (lambda s: exchange(of(s), of(s, model=1)), "its model is 610m-.*, not 610m-"),
    "all runs of the models exchanged": (
        lambda s: exchange(s / "results" / MODELS[0], s / "results" / MODELS[1]), "its model is 610m-.*, not 610m-"
    ),
    "a model's runs copied": (
        lambda s: replicate(s / "results" / MODELS[0], s / "results" / MODELS[1]), "its model is 610m-.*, not 610m-"
    ),
    "a seed copied": (lambda s: replicate(of(s), of(s, "lr1e-04_sd1")), "its seed is 0, not 1"),
    "a seed copied and sealed again": (resealed, "has the scores of .*lr1e-04_sd[01] on every instance"),
    "100 %, run.json deleted": (lambda s: perfect_and_bare(s, (RUN,)), f"lacks the {RUN} that was written with"),
    "100 %, all else deleted": (lambda s: perfect_and_bare(s, (RUN, DETAILS)), f"has no {RUN}, unlike other runs"),
    "run.json edited": (edited, "changed or damaged .it has been changed since"),
    "run.json emptied": (lambda s: (of(s) / RUN).write_text(""), "changed or damaged"),
    "run.json a pipe": (lambda s: (of(s) / RUN).unlink() or os.mkfifo(of(s) / RUN), "not a regular file"),
    "results exchanged": (
        lambda s: exchange(of(s) / RESULTS, of(s, "lr1e-04_sd1") / RESULTS), "its hash differs from"
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", DONE)
def test_forged_runs_are_left_out_or_refused(
    sealed: Path, tmp_path: Path, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    do, words = DONE[name]
    do(sealed)
    table = tmp_path / "runs.parquet"
    if name.startswith("all runs"):
        with pytest.raises(UserError, match=r"no usable run found.*its model is"):
            main(["ingest", str(sealed), "--out", str(table)])
        return
    assert main(["ingest", str(sealed), "--out", str(table)]) == 1
    assert 0 < len(read_runs(table)) < 60
    page = ["report", "--out", str(tmp_path / "page.html")]
    # Which open it as `scores` does
    others = [["audit"], ["compare", *MODELS], ["claims"], ["table", "3"], page]
    for command in (["scores"], *(others if name == "seeds exchanged" else [])):
        with pytest.raises(
            UserError,
            match=f"some runs do not match their own records.*{words}.*ingest .* uses the rest",
        ):
            main([*command, "--source", str(sealed)])


def elsewhere(store: Path, to: Path) -> Path:
    """Copy a store without its times, under another name, as a pack and an unpacking do, with the modes of others."""
    pack = to / "pack.zip"
    with zipfile.ZipFile(pack, "w") as out:
        for path in sorted(store.rglob("*")):
            out.write(path, path.relative_to(store))
    with zipfile.ZipFile(pack) as found:
        found.extractall(to / "another name")
    for path in sorted((to / "another name").rglob("*"), reverse=True):
        path.chmod(
            stat.S_IRUSR
            | stat.S_IROTH
            | (stat.S_IXUSR | stat.S_IXOTH if path.is_dir() else 0)
        )
        if os.geteuid() == 0:
            os.chown(path, 65534, 65534)
    return to / "another name"


def test_a_store_is_the_same_wherever_and_whose_it_is(
    sealed: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    first = ingest(sealed, tmp_path / "runs.parquet")
    moved = elsewhere(sealed, tmp_path)
    for place in (moved, moved / "results"):
        found = ingest(place, tmp_path / "moved.parquet")
        assert (found.status, found.unsealed) == (0, 0) and found.runs.equals(
            first.runs
        )
    monkeypatch.chdir(moved)
    caplog.set_level("INFO")
    assert main(["scores", "--source", "."]) == 0 and "unsealed" not in caplog.text


def test_runs_without_a_manifest_are_called_unsealed_and_counted(
    sealed: Path,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
) -> None:
    caplog.set_level("INFO")
    for path in (sealed / "results" / MODELS[1]).rglob("*"):
        if path.name in (RUN, DETAILS):
            path.unlink()
    assert main(["ingest", str(sealed), "--out", str(tmp_path / "runs.csv")]) == 0
    for source in (sealed, tmp_path / "runs.csv"):
        caplog.clear()
        main(["audit", "--source", str(source), "--format", "json"])
        assert caplog.text.count("30 of 60 runs unsealed") == 1
        found = json.loads(capsys.readouterr().out)
        assert found["unsealed"] == 30 and "30 of 60 runs unsealed" in found["source"]
    shutil.rmtree(sealed / "results" / MODELS[0])
    assert open_source(str(sealed)).long_label.endswith(
        "(unsealed, like the authors' files: a changed score would go unnoticed)"
    )


def write_released(
    store: Path, correct: dict[str, float], copied: dict[str, str]
) -> None:
    """Write a cell of SST-2 without manifests: accuracy by run, and runs that are those of another."""
    rng = np.random.default_rng(5)
    for key in cell_keys(MODELS[0], "sst2"):
        name = key.folder.name
        if name in copied:
            shutil.copytree(
                run_folder(store, name=copied[name]), run_folder(store, name=name)
            )
            continue
        folder = run_folder(store, name=name)
        folder.mkdir(parents=True)
        share = correct.get(name, 0.9)
        sizes = {"validation": 3368, "test": 872}
        scores = {
            split: (rng.random(n) < share).astype(int).tolist()
            for split, n in sizes.items()
        }
        (folder / RESULTS).write_text(results_text(scores))


def test_equal_results_are_copies_unless_answers_are_constant(
    tmp_path: Path,
) -> None:
    write_released(
        tmp_path / "store",
        {"lr5e-04_sd0": 0.509},
        {
            "lr1e-04_sd1": "lr1e-04_sd0",
            "lr5e-04_sd1": "lr5e-04_sd0",
            "lr5e-04_sd4": "lr5e-04_sd0",
        },
    )
    found = ingest(tmp_path / "store", tmp_path / "runs.parquet")
    said = {
        Path(one.path).name: one.sentence
        for one in found.problems
        if one.kind == "copied"
    }
    assert set(said) == {"lr1e-04_sd0", "lr1e-04_sd1"} and len(found.runs) == 28
    for one, other in (("lr1e-04_sd0", "lr1e-04_sd1"), ("lr1e-04_sd1", "lr1e-04_sd0")):
        assert (
            f"has the scores of {MODELS[0]}/SC/sst2/{other} on every instance"
            in said[one]
        )


def test_few_mistakes_may_be_the_same_by_chance(tmp_path: Path) -> None:
    write_released(
        tmp_path / "store", {"lr1e-04_sd0": 0.98}, {"lr1e-04_sd1": "lr1e-04_sd0"}
    )
    assert ingest(tmp_path / "store", tmp_path / "runs.parquet").status == 0


@pytest.mark.real_data
def test_no_answer_that_ignores_its_input_scores_more() -> None:
    if not (place := os.environ.get("REAL_DATA")):
        pytest.skip("REAL_DATA is not set")
    labels = [
        line.rpartition("\t")[2]
        for line in Path(place, "sst2/dev.tsv").read_text().splitlines()[1:]
    ]
    shares = {"sst2": labels}
    for name, file in (("mnli_m", "mnli"), ("qqp", "qqp")):
        rows = json.loads(Path(place, file, "dev.json").read_text())
        shares[name] = [
            row["label"] for row in (rows.values() if isinstance(rows, dict) else rows)
        ]
    for name, found in shares.items():
        most = max(map(found.count, set(found))) / len(found)
        of_hundred = blind_score(DATASETS[name].task, name, 100)
        assert (
            1 / len(set(found))
            <= most
            <= blind_score(DATASETS[name].task, name, len(found))
            < 0.72
        ), name
        for seed in range(100):
            sample = random.Random(seed).sample(found, 100)
            assert max(map(sample.count, set(sample))) / 100 <= of_hundred, name
    for part in ("dev", "test"):
        text = Path(place, f"uner_english_ewt/en_ewt-ud-{part}.iob2").read_text()
        blocks = [block.splitlines() for block in text.split("\n\n") if block.strip()]
        tags = [
            [line.split("\t")[2] for line in lines if not line.startswith("#")]
            for lines in blocks
        ]
        # The order of the tags decides nothing, and most sentences share their counts.
        kinds = Counter(tuple(sorted(one)) for one in tags)
        scores = [
            f1_score(one, ["O"] * len(one), average="macro", zero_division=0)
            for one in kinds
        ]
        mean = np.average(scores, weights=list(kinds.values()))
        assert 0.7 < mean <= blind_score("TC", "uner_en", len(tags))
