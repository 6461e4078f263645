"""A file in a link: the address gives back its bytes."""

from __future__ import annotations

import base64
import gzip

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
def test_the_address_holds_the_content(name: str, content: str | bytes, media: str) -> None:
    head, _, body = Download(name=name, label="", content=content).address.partition(",")
    assert head == f"data:{media};base64"
    assert base64.b64decode(body) == (content.encode() if isinstance(content, str) else content)


def test_a_picture_is_packed_and_the_same_each_time() -> None:
    file = Download(name="a.svg", label="", content=b"<svg/>" * 1000)
    head, _, body = file.address.partition(",")
    assert (head, file.saved_as) == ("data:application/gzip;base64", "a.svgz")
    assert gzip.decompress(base64.b64decode(body)) == file.content
    assert len(body) < 200 and file.address == Download(name="a.svg", label="", content=file.content).address
    assert Download(name="a.csv", label="", content="").saved_as == "a.csv"


def test_a_kind_of_file_that_has_no_media_type_is_refused() -> None:
    with pytest.raises(KeyError):
        _ = Download(name="a.exe", label="", content="").address
