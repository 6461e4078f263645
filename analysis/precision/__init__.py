"""How sure a number is: the coverage of intervals and the seeds that a difference needs."""
