"""How figures look: style, page, marks, places on the x axis."""
