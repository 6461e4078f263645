"""A finished study as an RO-Crate: valid by a validator that is not ours, read back with its hashes checked."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from analysis.store.ingest import ingest
from analysis.store.runs_table import read_runs
from analysis.tables.run_provenance import audit_provenance
from common.errors import UserError
from common.manifest import CRATE
from tests.oracle import Oracle
from workflow.crate import write_crate
from workflow.jobs import JOB_KINDS, Job, Workflow, by_marker, load, save

LICENCE = "https://spdx.org/licenses/CC-BY-4.0"

VALIDATE = """
import pathlib, requests, rocrate, rocrate.rocrate
from requests.adapters import HTTPAdapter

CONTEXT = (pathlib.Path(rocrate.__file__).parent / "data" / "ro-crate.jsonld").read_bytes()

def answer_offline(self, request, **_):
    if request.url != "https://w3id.org/ro/crate/1.1/context":
        raise requests.ConnectionError(f"no network in tests: {request.url}")
    response = requests.Response()
    response.status_code, response._content, response.url, response.request = 200, CONTEXT, request.url, request
    response.headers["Content-Type"] = "application/ld+json"
    response.raw = __import__("io").BytesIO(CONTEXT)
    return response

HTTPAdapter.send = answer_offline
from rocrate_validator import services
from rocrate_validator.models import Severity, ValidationSettings

answer = {}
for name, folder in given["crates"].items():
    settings = ValidationSettings(
        rocrate_uri=folder, profile_identifier="process-run-crate-0.5", no_cache=True,
        requirement_severity=Severity.REQUIRED,
    )
    issues = services.validate(settings).get_issues()
    answer[name] = [f"{issue.check.identifier}: {issue.message}" for issue in issues]
crate = rocrate.rocrate.ROCrate(given["crates"]["good"])
answer["read"] = [crate.name, len(crate.get_by_type("File")), crate.license.id]
"""


@pytest.fixture(scope="module")
def archived(whole_store: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished study with a store of runs, made an RO-Crate."""
    folder = tmp_path_factory.mktemp("study") / "study"
    shutil.copytree(whole_store, folder)
    runs = tuple(path.relative_to(folder).as_posix() for path in sorted(folder.rglob("results.json")))
    cell = Job(kind=JOB_KINDS["cell"], name="m/sst2", makes=runs)
    tables = Job(
        kind=JOB_KINDS["analysis"], name="all", makes=("analysis/all/table10.md",), needs=(cell.marker,)
    )
    (folder / "analysis/all").mkdir(parents=True)
    (folder / "analysis/all/table10.md").write_text("| a |\n")
    (folder / "shards").mkdir()
    (folder / "shards/big").write_text("not archived")
    save(Workflow(target="all", jobs=by_marker([cell, tables])), folder)
    _ran(folder, cell, "a" * 40, "2026-01-01T00:00:00+00:00", "2026-01-02T00:00:00+00:00")
    _ran(folder, cell, "a" * 40, "2026-01-02T00:00:00+00:00", "2026-01-03T00:00:00+00:00")
    _ran(folder, tables, "a" * 40, "2026-01-03T00:00:00+00:00", "2026-01-03T01:00:00+00:00")
    write_crate(folder, agent="https://orcid.org/0000-0002-1825-0097", licence=LICENCE)
    return folder


def _ran(folder: Path, job: Job, commit: str, start: str, end: str) -> None:
    path = folder / job.attempts
    path.parent.mkdir(parents=True, exist_ok=True)
    row = {"start": start, "end": end, "commit": commit, "image_sha256": "f" * 64, "node": "n1", "code": 0}
    with path.open("a") as file:
        file.write(json.dumps(row) + "\n")


@pytest.fixture
def crate(archived: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(archived, tmp_path / "crate"))


@pytest.mark.slow
def test_it_is_a_process_run_crate_by_a_validator_that_is_not_ours(
    archived: Path, validators: Oracle, tmp_path: Path
) -> None:
    def changed(name: str, old: str, new: str) -> str:
        folder = Path(shutil.copytree(archived, tmp_path / name))
        text = (folder / CRATE).read_text()
        assert old in text
        (folder / CRATE).write_text(text.replace(old, new))
        return str(folder)

    crates = {
        "good": str(archived),
        "no software": changed("a", '"SoftwareApplication"', '"Thing"'),
        "no licence": changed("b", '"license": {', '"comment": {'),
        "no tool": changed("c", '"instrument"', '"about"'),
    }
    found = validators.run(VALIDATE, folder=tmp_path / "run", crates=crates)
    files = [row for row in json.loads((archived / CRATE).read_text())["@graph"] if "contentSize" in row]
    assert found.pop("read") == ["all", len(files), LICENCE]
    assert found.pop("good") == []
    assert all(found.values()), found


def test_it_lists_what_is_archived_and_is_the_same_when_written_again(crate: Path) -> None:
    before = (crate / CRATE).read_bytes()
    listed = {row["@id"] for row in json.loads(before)["@graph"] if "contentSize" in row}
    assert {"workflow.json", "analysis/all/table10.md"} < listed
    assert not any(name.startswith("shards") for name in listed)
    write_crate(crate, agent="https://orcid.org/0000-0002-1825-0097", licence=LICENCE)
    assert (crate / CRATE).read_bytes() == before


def test_a_copy_archived_from_another_checkout_says_what_ran(
    crate: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = tmp_path / "copy"
    subprocess.run(["cp", "-r", str(crate), str(copy)], check=True)
    monkeypatch.setattr("common.provenance.git_commit", lambda: "b" * 40)
    write_crate(copy, agent="me", licence=LICENCE)
    rows = {row["@id"]: row for row in json.loads((copy / CRATE).read_text())["@graph"]}
    assert (copy / CRATE).read_text().count("b" * 40) == 0
    # From the start of the first attempt to the end of the last.
    assert (rows["#job/cell/m/sst2"]["startTime"], rows["#job/cell/m/sst2"]["endTime"]) == (
        "2026-01-01T00:00:00+00:00", "2026-01-03T00:00:00+00:00",
    )  # fmt: skip
    assert rows["./"]["datePublished"] == "2026-01-03T01:00:00+00:00"
    assert rows["#tool-cell"]["softwareVersion"] == "a" * 40
    assert rows["#job/cell/m/sst2"]["containerImage"] == {"@id": f"#image-{'f' * 64}"}
    assert rows[f"#image-{'f' * 64}"]["additionalType"]["@id"].endswith("#SIFImage")
    assert rows["#job/cell/m/sst2"]["description"] == f"commit {'a' * 40} on n1"


def test_a_mixture_is_archived_only_where_it_is_wanted(crate: Path) -> None:
    tables = load(crate).jobs["done/analysis/all.json"]
    _ran(crate, tables, "c" * 40, "2026-01-04T00:00:00+00:00", "2026-01-04T01:00:00+00:00")
    with pytest.raises(
        UserError, match=r"images: 1 with commit a{12} in image f{12}, 1 with commit c{12} in image f{12}"
    ):
        write_crate(crate, agent="me", licence=LICENCE)
    write_crate(crate, agent="me", licence=LICENCE, mixed=True)
    rows = {row["@id"]: row for row in json.loads((crate / CRATE).read_text())["@graph"]}
    assert rows["#job/analysis/all"]["description"] == f"commit {'c' * 40} on n1"


def test_ingest_and_audit_read_it_back(crate: Path, tmp_path: Path) -> None:
    ingested = ingest(crate, tmp_path / "runs.parquet", jobs=1)
    assert (
        len(read_runs(tmp_path / "runs.parquet"))
        == len(ingested.runs)
        == len(list(crate.rglob("results.json")))
    )
    assert audit_provenance(crate).runs == len(ingested.runs)


def _results(crate: Path) -> Path:
    return sorted(crate.rglob("results.json"))[3]


def test_audit_looks_at_every_file(crate: Path) -> None:
    """Every way to change a crate is in `tests/common/test_crates`."""
    (crate / "analysis/all/table10.md").write_text("| b |\n")
    with pytest.raises(UserError, match=r"analysis/all/table10.md: its content has changed"):
        audit_provenance(crate)


def test_what_is_not_finished_is_not_archived(crate: Path, tmp_path: Path) -> None:
    _results(crate).unlink()
    with pytest.raises(UserError, match=r"has 2 unfinished jobs \(the first: cell m/sst2\)"):
        write_crate(crate, agent="x", licence=LICENCE)
    with pytest.raises(UserError, match="there is no study in"):
        write_crate(tmp_path, agent="x", licence=LICENCE)


def test_links_that_lead_elsewhere_are_not_archived(crate: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("x")
    (crate / "analysis" / "secret.md").symlink_to(tmp_path / "secret")
    write_crate(crate, agent="x", licence=LICENCE)
    assert "secret.md" not in (crate / CRATE).read_text()
