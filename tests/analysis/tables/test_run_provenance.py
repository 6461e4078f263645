import json
from pathlib import Path

import pytest

from analysis.store.stand_ins import STAND_INS
from analysis.tables.run_provenance import audit_provenance, provenance_lines
from benchmarks.runs import RunKey
from clm_or_mlm.__main__ import main
from common.errors import UserError
from tests.analysis.stores import fill_own
from tests.results import write_results
from tests.sealed import seal


def _record(**changes: object) -> dict[str, object]:
    record = {
        "status": "complete",
        "protocol": {"results.json": "paper"},
        "description": {
            "tuning": {"steps": 1000},
            "pooling": "mean",
            "precision": "bf16",
            "training_data": "aa",
            "evaluation_data": "bb",
        },
        "machine": {"device": "NVIDIA H100", "precision": "bf16"},
        "provenance": {
            "commit": "c1",
            "lock": {"sha256": "00"},
            "python": "3.11.2",
            "versions": {"torch": "2.7.0"},
        },
    }
    for key, value in changes.items():
        section, _, name = key.partition("__")
        record[section] = {**record[section], name: value} if name else value  # type: ignore[dict-item]
    return record


def _run(store: Path, dataset: str, seed: int, **changes: object) -> Path:
    key = RunKey(model="610m-clm-42k", dataset=dataset, lr=1e-4, seed=seed)
    path = write_results(store, key, {"validation": [1.0], "test": [1.0, 0.0]})
    seal(path.parent, _record(**changes))
    return path.parent


@pytest.fixture
def store(tmp_path: Path) -> Path:
    for dataset in ("sst2", "qqp", "squad"):
        for seed in range(3):
            _run(tmp_path, dataset, seed)
    return tmp_path


def test_a_store_made_with_one_thing_agrees(
    store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = audit_provenance(store)
    assert (found.runs, found.recorded, found.mismatches, found.failed) == (
        9,
        9,
        (),
        (),
    )
    # Its scores differ from the paper's
    assert main(["audit", "--source", str(store), "--format", "json"]) == 1
    assert json.loads(capsys.readouterr().out)["provenance"]["runs"] == 9
    main(["audit", "--source", str(store)])
    printed = capsys.readouterr().out
    assert "all agree within each table" in printed and "0 mismatches" in printed


@pytest.mark.parametrize(
    ("aspect", "change", "table"),
    [
        (
            "lock",
            {
                "provenance": {
                    "commit": "c1",
                    "lock": {"sha256": "11"},
                    "python": "3.11.2",
                    "versions": {"torch": "2.7.0"},
                }
            },
            "SC",
        ),
        ("commit", {"provenance__commit": "c2-dirty"}, "SC"),
        ("versions", {"provenance__versions": {"torch": "2.8.0"}}, "SC"),
        ("training_data", {"description__training_data": "cc"}, "sst2"),
        ("protocol", {"protocol": {"results.json": "standard"}}, "SC"),
        ("device", {"machine__device": "NVIDIA A100"}, "SC"),
        ("tuning", {"description__tuning": {"steps": 10}}, "SC"),
        ("precision", {"description__precision": "fp32"}, "SC"),
    ],
)
def test_what_one_run_differs_in_is_flagged_with_its_path(
    store: Path,
    aspect: str,
    change: dict[str, object],
    table: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    _run(store, "sst2", 1, **change)
    (found,) = audit_provenance(store / "results").mismatches
    assert (found.aspect, found.table) == (aspect, table)
    assert found.examples == ("610m-clm-42k/SC/sst2/lr1e-04_sd1",)
    assert sorted(found.values.values()) == [1, 2 if table == "sst2" else 5]
    assert main(["audit", "--source", str(store)]) == 1
    assert "such as 610m-clm-42k/SC/sst2/lr1e-04_sd1" in capsys.readouterr().out


def test_what_a_record_leaves_out_differs_from_what_others_say(store: Path) -> None:
    _run(store, "sst2", 1, provenance__commit=None)
    (found,) = audit_provenance(store).mismatches
    assert (found.aspect, found.values) == ("commit", {"c1": 5, "?": 1})


def test_data_of_different_datasets_may_differ(store: Path) -> None:
    for seed in range(3):
        _run(store, "qqp", seed, description__training_data="another")
    assert audit_provenance(store).mismatches == ()


def test_failed_runs_come_with_the_end_of_their_log(
    store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = _run(store, "sst2", 4)
    (folder / "results.json").unlink()
    seal(folder, {"status": "failed", "reason": "the loss is NaN at step 7"})
    log = store / "logs" / "cell" / "610m-clm-42k__sst2.log"
    log.parent.mkdir(parents=True)
    log.write_text("".join(f"line {number}\n" for number in range(9)))
    (failed,) = audit_provenance(store).failed
    assert failed.reason == "the loss is NaN at step 7"
    assert failed.log == tuple(f"line {number}" for number in range(4, 9))
    main(["audit", "--source", str(store), "--format", "json"])
    found = json.loads(capsys.readouterr().out)["provenance"]
    assert found["failed"][0]["run"] == "610m-clm-42k/SC/sst2/lr1e-04_sd4"


def test_a_small_studys_runs_are_compared_among_themselves(
    store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    content = {
        "title": "SMALL",
        "note": "x",
        "steps": 1,
        "models": {"610m-clm-42k": "210m-clm-42k"},
        "others": [],
        "stages": {},
        "families": {"SC": ["sst2"]},
    }
    (store / STAND_INS).write_text(json.dumps(content))
    assert main(["audit", "--source", str(store)]) == 0
    assert "all agree within each table" in capsys.readouterr().out
    _run(store, "sst2", 1, provenance__commit="c2")
    assert main(["audit", "--source", str(store)]) == 1
    assert "DIFFERS  SC: commit of the code" in capsys.readouterr().out


def test_runs_of_the_stores_own_datasets_are_compared(store: Path) -> None:
    for folder, commit in zip(fill_own(store), ("c1", "c2"), strict=True):
        seal(folder, _record(provenance__commit=commit, description__tuning={}))
    found = audit_provenance(store / "results")
    assert (found.runs, found.recorded) == (11, 11)
    # Not the tuning: in no table do they stand with the paper's
    (mismatch,) = found.mismatches
    assert (mismatch.aspect, mismatch.table) == ("commit", "reviews")
    assert mismatch.examples == ("610m-clm-42k/SC/reviews/lr1e-04_sd1",)


def test_released_runs_have_no_record(tmp_path: Path) -> None:
    path = _run(tmp_path, "sst2", 0)
    (path / "run.json").unlink()
    found = audit_provenance(tmp_path)
    assert (found.runs, found.recorded) == (1, 0)
    assert not any("agree" in line for line in provenance_lines(found))


def test_no_store_and_a_broken_record_are_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="has no runs"):
        audit_provenance(tmp_path)
    (_run(tmp_path, "sst2", 0) / "run.json").write_text("{")
    with pytest.raises(UserError, match=r"has a run.json that was changed or damaged"):
        audit_provenance(tmp_path)
