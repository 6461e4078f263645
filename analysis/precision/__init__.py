"""How many seeds and pretrainings a difference needs, and what moves a score."""
