"""How figures look: style, page, marks, positions on the x axis."""
