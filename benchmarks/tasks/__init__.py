"""The four task families: sequence and token classification, question answering, retrieval."""
