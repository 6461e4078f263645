"""LaTeX tables that fit a page: booktabs, small type, and shrunk to the width of the text where they are wider."""

from __future__ import annotations

from collections.abc import Sequence

from common.text_tables import Rows

__all__ = ["latex_environment", "latex_table", "tex"]

_TEX = str.maketrans({"\\": "\\textbackslash{}", "%": "\\%", "_": "\\_", "&": "\\&", "#": "\\#", "$": "\\$",
        "{": "\\{", "}": "\\}", "~": "\\textasciitilde{}", "^": "\\textasciicircum{}", "±": "$\\pm$", "<": "$<$",
        ">": "$>$", "\u221a": "$\\surd$", "\u2212": "$-$", "\u03c3": "$\\sigma$", "\u00d7": "$\\times$"})  # fmt: skip


def tex(text: str) -> str:
    """Return the text with what is special in LaTeX escaped."""
    return text.translate(_TEX)


def latex_environment(columns: str, body: Sequence[str], *, caption: str, label: str) -> list[str]:
    """Return the lines of a `table` that needs booktabs and graphicx.

    Args:
        columns: as `tabular` takes them: `llrr`.
        body: the lines between `\\toprule` and `\\bottomrule`, in LaTeX.
        caption: in LaTeX.
        label: after `tab:`.
    """
    return [
        "% needs \\usepackage{booktabs,graphicx}",
        "\\begin{table}[t]",
        "\\centering\\small\\setlength{\\tabcolsep}{4pt}",
        f"\\caption{{{caption}}}",
        f"\\label{{tab:{label}}}",
        # Shrinks a table that is wider than the text, and leaves the others as they are.
        f"\\resizebox{{\\ifdim\\width>\\linewidth\\linewidth\\else\\width\\fi}}{{!}}{{\\begin{{tabular}}{{{columns}}}",
        "\\toprule",
        *body,
        "\\bottomrule",
        "\\end{tabular}}",
        "\\end{table}",
    ]


def latex_table(rows: Rows, *, caption: str, label: str, stubs: int = 1) -> str:
    """Return rows of plain texts as a table, the first row its head, the first `stubs` columns aligned on the left."""
    head, *others = ([tex(text) for text in row] for row in rows)
    body = [f"{' & '.join(head)} \\\\", "\\midrule", *(f"{' & '.join(row)} \\\\" for row in others)]
    columns = "l" * stubs + "r" * (len(head) - stubs)
    return "\n".join(latex_environment(columns, body, caption=tex(caption), label=label)) + "\n"
