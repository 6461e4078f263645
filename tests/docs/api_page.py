"""Writes docs/api.md from the docstrings of the public names.

python -m tests.docs.api_page
"""

from __future__ import annotations

import inspect

import clm_or_mlm as cm
from analysis.sources import Source
from common.provenance import ROOT

PAGE = ROOT / "docs" / "api.md"
HEAD = """\
# Which Python functions does the package have?

    import clm_or_mlm as cm

[The notebook](tutorial.ipynb) uses each of these names; `help(cm.scores)` explains the arguments. `source` is
`"published"`, `"released"`, `"miniature"`, the path of a run store or runs table, a pandas DataFrame of runs, or what
`load` returned. Invalid arguments or files raise `common.errors.UserError`. `python -m tests.docs.api_page` writes this
page.
"""


def page() -> str:
    """Return the page."""
    functions = [name for name in cm.__all__ if name != "Source"]
    order = ["load", "runs", "scores", "table", "claims", "explain", "audit", "letter", "compare", "figure"]
    names = [*order, *(name for name in functions if name not in order)]
    return "\n".join([HEAD, *map(_function, names), _source()])


def _function(name: str) -> str:
    function = getattr(cm, name)
    shown = []
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind is parameter.KEYWORD_ONLY and not any(word.startswith("*") for word in shown):
            shown.append("*")
        default = "" if parameter.default is parameter.empty else f"={parameter.default!r}"
        star = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
        shown.append(f"{star}{parameter.name}{default}")
    return f"## `{name}({', '.join(shown)})`\n\n{_summary(function)}\n"


def _summary(thing: object) -> str:
    parts = (inspect.getdoc(thing) or "").split("\n\n")
    kept = [parts[0], *(part for part in parts[1:] if part.startswith("Columns:"))]
    return "\n\n".join(" ".join(part.split()) for part in kept)


def _source() -> str:
    members = []
    for name in ("is_published", "scores", "need_runs"):
        member = vars(Source)[name]
        call = {"scores": "(settings)", "need_runs": "(what)"}.get(name, "")
        members.append(f"- `{name}{call}`: {_summary(member)}")
    return "\n".join(["## `Source`", "", "What `load` returns: an open source.", "", *members, ""])


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
