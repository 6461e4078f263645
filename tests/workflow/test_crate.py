"""A finished study as an RO-Crate: valid by a validator that is not ours, read back with its hashes checked."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from analysis.store.ingest import ingest
from analysis.store.runs_table import read_runs
from analysis.tables.provenance import audit_provenance
from common.errors import UserError
from common.manifest import CRATE
from tests.oracle import Oracle
from workflow.crate import write_crate
from workflow.jobs import KINDS, Job, Workflow, by_marker, save

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
        rocrate_uri=folder, profile_identifier="workflow-run-crate-0.5", no_cache=True,
        requirement_severity=Severity.REQUIRED,
    )
    issues = services.validate(settings).get_issues()
    answer[name] = [f"{issue.check.identifier}: {issue.message}" for issue in issues]
crate = rocrate.rocrate.ROCrate(given["crates"]["good"])
answer["read"] = [crate.name, crate.mainEntity.id, len(crate.get_by_type("File")), crate.license.id]
"""


@pytest.fixture(scope="module")
def archived(whole_store: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished study with a store of runs, made an RO-Crate."""
    folder = tmp_path_factory.mktemp("study") / "study"
    shutil.copytree(whole_store, folder)
    runs = tuple(path.relative_to(folder).as_posix() for path in sorted(folder.rglob("results.json")))
    cell = Job(kind=KINDS["cell"], name="m/sst2", makes=runs)
    tables = Job(kind=KINDS["analysis"], name="all", makes=("analysis/all/table10.md",), needs=(cell.marker,))
    (folder / "analysis/all").mkdir(parents=True)
    (folder / "analysis/all/table10.md").write_text("| a |\n")
    (folder / "shards").mkdir()
    (folder / "shards/big").write_text("not archived")
    save(Workflow(target="all", jobs=by_marker([cell, tables])), folder)
    write_crate(folder, agent="https://orcid.org/0000-0002-1825-0097", licence=LICENCE)
    return folder


@pytest.fixture
def crate(archived: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(archived, tmp_path / "crate"))


@pytest.mark.slow
def test_it_is_a_workflow_run_crate_by_a_validator_that_is_not_ours(
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
        "no run": changed("a", '"CreateAction"', '"Thing"'),
        "no workflow": changed("b", '"mainEntity"', '"about"'),
        "no licence": changed("c", '"license": {', '"comment": {'),
    }
    found = validators.run(VALIDATE, folder=tmp_path / "run", crates=crates)
    files = [row for row in json.loads((archived / CRATE).read_text())["@graph"] if "sha256" in row]
    assert found.pop("read") == ["all", "Snakefile", len(files), LICENCE]
    assert found.pop("good") == []
    assert all(found.values()), found


def test_it_lists_what_is_archived_and_is_the_same_when_written_again(crate: Path) -> None:
    before = (crate / CRATE).read_bytes()
    listed = {row["@id"] for row in json.loads(before)["@graph"] if "sha256" in row}
    assert {"workflow.json", "Snakefile", "analysis/all/table10.md"} < listed
    assert not any(name.startswith("shards") for name in listed)
    write_crate(crate, agent="https://orcid.org/0000-0002-1825-0097", licence=LICENCE)
    assert (crate / CRATE).read_bytes() == before


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


def _flip(crate: Path) -> None:
    path = _results(crate)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def _smuggle(crate: Path) -> None:
    folder = _results(crate).parent
    shutil.copytree(folder, folder.with_name(folder.name + "9"))


def _climb(crate: Path) -> None:
    text = (crate / CRATE).read_text()
    name = _results(crate).relative_to(crate).as_posix()
    (crate / CRATE).write_text(
        text.replace(f'"@id": "{name}",\n   "@type"', '"@id": "results/../../x",\n   "@type"')
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_flip, r"results/\S+/results.json: its content has changed \(SHA-256\); bring the archive again"),
        (lambda crate: _results(crate).unlink(), r"results/\S+/results.json is missing"),
        (_smuggle, r"does not list \S+sd\d9/"),
        (_climb, "'results/../../x' does not stay in its folder"),
        (lambda crate: (crate / CRATE).write_text("{}"), "no metadata of an RO-Crate"),
        (lambda crate: (crate / CRATE).write_text('{"@graph": [7]}'), "no metadata of an RO-Crate"),
    ],
)
def test_a_crate_that_was_changed_is_refused(
    crate: Path, tmp_path: Path, change: object, message: str
) -> None:
    assert callable(change)
    change(crate)
    with pytest.raises(UserError, match=message):
        ingest(crate, tmp_path / "runs.parquet", jobs=1)
    assert not (tmp_path / "runs.parquet").exists()


def test_audit_looks_at_every_file(crate: Path) -> None:
    (crate / "analysis/all/table10.md").write_text("| b |\n")
    with pytest.raises(UserError, match=r"analysis/all/table10.md: its content has changed"):
        audit_provenance(crate)


def test_what_is_not_finished_is_not_archived(crate: Path, tmp_path: Path) -> None:
    _results(crate).unlink()
    with pytest.raises(UserError, match=r"2 jobs of .* are not done, cell m/sst2 first"):
        write_crate(crate, agent="x", licence=LICENCE)
    with pytest.raises(UserError, match="holds no study"):
        write_crate(tmp_path, agent="x", licence=LICENCE)


def test_links_that_lead_elsewhere_are_not_archived(crate: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("x")
    (crate / "analysis" / "secret.md").symlink_to(tmp_path / "secret")
    write_crate(crate, agent="x", licence=LICENCE)
    assert "secret.md" not in (crate / CRATE).read_text()
