"""Writes docs/api.md from the docstrings of the public names.

python -m tests.docs.api_page
"""

from __future__ import annotations

import inspect
import re
import textwrap

import clm_or_mlm as cm
from analysis.sources import Source
from common.provenance import ROOT

PAGE = ROOT / "docs" / "api.md"
HEAD = """\
# Which functions does the package have in Python?

    import clm_or_mlm as cm

Thirteen names: sources and pandas frames in; frames, text and matplotlib figures out. [The notebook](tutorial.ipynb)
uses each of them. Where a function takes `source`, give it `"published"`, `"released"`, `"miniature"`, the path of a
run store or runs table, a frame of runs, or what `load` returned. What a user has to correct is raised as
`common.errors.UserError`, one sentence.

This page is written from the docstrings by `python -m tests.docs.api_page`.
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
    return f"## `{name}({', '.join(shown)})`\n\n{_markdown(inspect.getdoc(function) or '')}\n"


def _source() -> str:
    members = []
    for name in ("is_published", "default_interval", "scores", "need_runs"):
        member = vars(Source)[name]
        call = "()" if inspect.isfunction(member) else ""
        summary = (inspect.getdoc(member) or "").split("\n\n")[0]
        members.append(f"- `{name}{call}`: {' '.join(summary.split())}")
    return "\n".join(["## `Source`", "", "What `load` returns: an open source.", "", *members, ""])


def _markdown(doc: str) -> str:
    """Return a docstring as Markdown: sections become lists."""
    lines: list[str] = []
    for part in re.split(r"\n\n", doc):
        heading, _, body = part.partition("\n")
        if heading in ("Args:", "Raises:"):
            lines += ["", "Arguments:" if heading == "Args:" else heading, ""]
            entries = re.split(r"\n(?=\S)", textwrap.dedent(body))
            for entry in entries:
                name, _, meaning = " ".join(entry.split()).partition(": ")
                lines.append(f"- `{name}`: {meaning}")
        elif heading == "Returns:":
            lines += ["", f"Returns {' '.join(body.split())[0].lower()}{' '.join(body.split())[1:]}"]
        else:
            lines += ["", part]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip()


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
