"""The encoder in plain torch: configuration, layers, heads, masks, loss, other checkpoint forms."""
