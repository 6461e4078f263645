"""What it would take to overturn a verdict: other pretrainings."""
