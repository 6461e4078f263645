"""One fine-tuning: encoder, head, tokenization, trainer, device."""
