"""From knowledge to pictures: one module a figure of the paper."""
