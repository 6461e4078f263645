"""The four task families: sequence and token classification, question answering, retrieval.

A dataset is added elsewhere: its reader in `benchmarks/datasets/readers`, its entry in `benchmarks/protocol.py`
(docs/add-a-dataset.md).
"""
