"""A file in a link: the address gives back its bytes."""

from __future__ import annotations

import base64

import pytest

from clm_or_mlm.report.downloads import Download


@pytest.mark.parametrize(
    ("name", "content", "media"),
    [
        ("a.csv", "x,y\n1,\u00b1 2\n", "text/csv;charset=utf-8"),
        ("a.tex", "50\\,\\% & # \n", "application/x-tex;charset=utf-8"),
        ("a.md", "", "text/markdown;charset=utf-8"),
    ],
)
def test_the_address_holds_the_content(name: str, content: str, media: str) -> None:
    head, _, body = Download(name=name, label="", content=content).address.partition(",")
    assert head == f"data:{media};base64"
    assert base64.b64decode(body) == content.encode()


def test_bytes_have_no_charset() -> None:
    assert Download(name="a.zip", label="", content=b"\xff").address == "data:application/zip;base64,/w=="


def test_a_kind_of_file_that_has_no_media_type_is_refused() -> None:
    with pytest.raises(KeyError):
        _ = Download(name="a.exe", label="", content="").address
