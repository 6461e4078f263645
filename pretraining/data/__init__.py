"""From documents to training sequences: corpus, tokenizer, shards, sampler."""
