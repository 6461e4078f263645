"""Sentences of the pages, and those among them that say how a comparison came out."""

import json
import re
from collections.abc import Iterator

from common.provenance import ROOT
from tests.docs.notebook import NOTEBOOK

OUTCOME = re.compile(
    r"(?<![-\w])(ahead|alike|beats?|behind|best|better|catch(es)? up|clear(ly)?|close|comparable|competitive|equal|"
    r"fails?|gains?|help(s|ed)?|higher|holds?|leads?|lowe(r|st)|on par|open|overtakes?|prefers?|shown|suffices?|"
    r"surpass(es)?|wins?|beaten|outperforms?|worse|worst)(?![-\w])",
    re.IGNORECASE,
)
"""Words that say how a comparison came out."""

SUBJECT = re.compile(
    r"\b(answer|answering|classification|retrieval|MLM|CLM|CPT|F\d+[a-e]?|SC|TC|QA|IR|SST-2|NQ|UNER|SQuAD|QMSum|"
    r"comparisons?|differences?|findings?|gains?|models?|pairs|parts|pretrainings?|ratios?|scale|size|verdicts?)\b"
)
"""What is compared: objectives, tasks, datasets, findings, models."""

_CODE = re.compile(r"^ *```.*?^ *```$", re.DOTALL | re.MULTILINE)
_END = re.compile(r"(?<=[.:;?!*)])\s+(?=[A-Z*\"(`\[&])")
"""Where a sentence ends within a paragraph: the next one begins with a capital, a mark or a quotation."""


def without_decimals(sentence: str) -> str:
    """Return a sentence with `#` in place of numbers with decimals, which other tests hold to what is found."""
    return re.sub(r"\d+\.\d+", "#", sentence)


def prose(text: str) -> Iterator[str]:
    """Yield the sentences of a page, its headings and the rows of its tables; code and commands are left out."""
    for block in re.split(r"\n\s*\n", _CODE.sub("", text)):
        words: list[str] = []
        for line in block.splitlines():
            if line.startswith("    ") and not words:
                continue
            if line.startswith(("|", "#")):
                yield line
                continue
            if re.match(r"\s*([-*>]|\d+\.) ", line) and words:
                yield from _END.split(" ".join(words))
                words = []
            words.append(line.strip())
        if words:
            yield from _END.split(" ".join(words))


def notebook() -> Iterator[str]:
    """Yield the sentences of the notebook."""
    for cell in json.loads(NOTEBOOK.read_text("utf-8"))["cells"]:
        if cell["cell_type"] == "markdown":
            yield from prose("".join(cell["source"]))


def pages() -> dict[str, list[str]]:
    """Return the sentences of README.md and docs/ that say how a comparison came out, by page."""
    paths = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    found = {
        str(path.relative_to(ROOT)): prose(path.read_text("utf-8")) for path in paths
    }
    found[str(NOTEBOOK.relative_to(ROOT))] = notebook()
    return {
        page: [
            one
            for one in sentences
            # A quotation is the paper's
            if OUTCOME.search(one) and SUBJECT.search(one) and not one.startswith("> ")
        ]
        for page, sentences in found.items()
    }
