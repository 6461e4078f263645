"""The encoder in plain torch, and any other of transformers: layers, masks, loss, folders of all of them."""
