"""The study as jobs: shards, pretraining, export, cells, tables and figures, on one machine or a cluster."""
