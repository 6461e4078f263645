from __future__ import annotations

from common.errors import nearest


def test_nearest() -> None:
    assert nearest("publishd", ["published", "released"]) == "; did you mean 'published'?"
    assert nearest("zzz", ["published"]) == ""
