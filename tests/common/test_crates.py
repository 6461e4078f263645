"""A folder against the hashes that its RO-Crate metadata give; the metadata are written by hand here."""

import hashlib
import json
from pathlib import Path

import pytest

from common.errors import UserError
from common.manifest import CRATE, check_crate


@pytest.fixture
def crate(tmp_path: Path) -> Path:
    rows: list[dict[str, object]] = [
        {"@id": CRATE, "@type": "CreativeWork"},
        {"@id": "results/", "@type": "Dataset"},
    ]
    for name, kind in (("results/a", "File"), ("./b", ["File", "SoftwareSourceCode"])):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(name)
        digest = hashlib.sha256(name.encode()).hexdigest()
        rows.append({"@id": name, "@type": kind, "contentSize": str(len(name)), "sha256": digest})
    (tmp_path / CRATE).write_text(json.dumps({"@graph": rows}))
    return tmp_path


def test_files_with_a_hash_are_checked(crate: Path) -> None:
    assert check_crate(crate) == 2
    (crate / "results" / ".lock").touch()
    assert check_crate(crate) == 2


def test_a_folder_that_is_no_crate_is_not_checked(tmp_path: Path) -> None:
    assert check_crate(tmp_path) == 0


def test_a_changed_a_missing_and_an_unlisted_file(crate: Path) -> None:
    (crate / "results" / "c").touch()
    assert_refused(crate, "not list results/c; get a fresh")
    (crate / "b").write_text("./B")
    assert_refused(crate, r"b: its content has changed \(SHA-256\); get a fresh copy of the archive")
    (crate / "b").unlink()
    assert_refused(crate, "b is missing; get a fresh")


@pytest.mark.parametrize("name", ["../b", "/etc/passwd", "results/../../b"])
def test_a_path_that_leads_out_is_refused(crate: Path, name: str) -> None:
    (crate / CRATE).write_text((crate / CRATE).read_text().replace('"./b"', json.dumps(name)))
    assert_refused(crate, "is not a valid path inside its folder")


@pytest.mark.parametrize(
    "text", ["[", "[]", "{}", '{"@graph": [7]}', '{"@graph": [{"@type": "File", "sha256": "0"}]}']
)
def test_metadata_of_another_kind_are_refused(crate: Path, text: str) -> None:
    (crate / CRATE).write_text(text)
    assert_refused(crate, "not valid RO-Crate metadata")


def assert_refused(crate: Path, message: str) -> None:
    with pytest.raises(UserError, match=message):
        check_crate(crate)
