"""What the site (mkdocs.yml) has besides docs/: the README, the gallery, the notebook, the Python reference.

A hook of MkDocs, which runs in .venv/docs and so imports nothing of the package. `make docs` draws the figures first.
"""

import html
import json
import posixpath
import re
from collections.abc import Iterator
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[2]
DRAWN = ROOT / "build" / "site-figures"
"""Where `make docs` has drawn the figures, a folder for each source."""
SOURCES = {
    "published": "From the paper's printed scores",
    "miniature": "From the miniature, a study at toy scale",
}
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages and pictures that are generated."""
    pages = {
        "index.md": readme(),
        "gallery.md": gallery(),
        "tutorial.md": notebook(),
        "python.md": python(),
    }
    for name, text in pages.items():
        files.append(File.generated(config, name, content=text))
    for path in sorted(DRAWN.glob("*/*.svg")):
        name = f"figures/{path.relative_to(DRAWN)}"
        files.append(File.generated(config, name, abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, page: object, **_: object) -> str:
    """Make links to the notebook and the README lead to their pages, and those to other files names."""
    folder = posixpath.dirname(page.file.src_uri)  # type: ignore[attr-defined]

    def here(match: re.Match[str]) -> str:
        target, _, anchor = match[3].partition("#")
        if "://" in target or not target:
            return match[0]
        where = posixpath.normpath(posixpath.join("docs", folder, target))
        if where == "README.md":
            to = "index.md"
        elif where == "docs/tutorial.ipynb":
            to = "tutorial.md"
        elif where.startswith("docs/"):
            return match[0]
        elif (ROOT / where).exists():
            return match[2]
        else:
            return match[0]
        relative = posixpath.relpath(to, folder or ".")
        return f"{match[1]}[{match[2]}]({relative}{'#' * bool(anchor)}{anchor})"

    return LINK.sub(here, markdown)


def readme() -> str:
    """Return the README as a page of docs/."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    return re.sub(r"\]\(docs/", "](", re.sub(r"\]\((?!docs/|https?:|#)", "](../", text))


def gallery() -> str:
    """Return all figures that are drawn; each has its caption in the picture."""
    parts = [
        "# All figures\n\nEach figure is also a PDF, a PNG and a CSV: `clm-or-mlm figure NAME`.\n"
    ]
    for source, title in SOURCES.items():
        parts.append(f"## {title}\n")
        for path in sorted((DRAWN / source).glob("*.svg"), key=_in_order):
            said = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
            alt = html.escape(
                path.with_suffix(".txt").read_text(encoding="utf-8").strip()
            )
            parts.append(
                f'### {said["title"]}\n\n<img src="figures/{source}/{path.name}" alt="{alt}">\n'
            )
    return "\n".join(parts)


def _in_order(path: Path) -> tuple[str, int]:
    words, number = re.fullmatch(r"(\D*)(\d*).*", path.stem).groups()  # type: ignore[union-attr]
    return words, int(number or 0)


def notebook() -> str:
    """Return the notebook's cells and what they show."""
    cells = json.loads((ROOT / "docs" / "tutorial.ipynb").read_text(encoding="utf-8"))[
        "cells"
    ]
    return "\n\n".join(part for cell in cells for part in _cell(cell)) + "\n"


def _cell(cell: dict) -> Iterator[str]:  # type: ignore[type-arg]
    source = "".join(cell["source"])
    if cell["cell_type"] == "markdown":
        yield source
        return
    yield f"```python\n{source}\n```"
    for output in cell["outputs"]:
        data = output.get("data", {"text/plain": output.get("text", "")})
        if "image/png" in data:
            yield f'<img alt="what the cell above draws" src="data:image/png;base64,{data["image/png"].strip()}">'
        elif "text/html" in data:
            yield re.sub(
                r"<style.*?</style>", "", "".join(data["text/html"]), flags=re.DOTALL
            )
        else:
            yield f"```text\n{''.join(data['text/plain'])}\n```"


def python() -> str:
    """Return the page that mkdocstrings fills in from the docstrings."""
    return (
        "# The Python functions\n\n    import clm_or_mlm as cm\n\n::: clm_or_mlm.api\n"
    )
