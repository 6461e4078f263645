"""The nearest documents of a query."""

from __future__ import annotations

import numpy as np
import torch

from benchmarks.tasks.ranking import rank


def test_documents_that_tie_at_the_last_rank_are_chosen_as_numpy_does() -> None:
    documents = torch.nn.functional.normalize(
        torch.randn(40, 8, generator=torch.Generator().manual_seed(0)), dim=1
    )
    documents[5:30] = documents[4]
    queries = torch.cat([documents[:1], documents[4:5]])
    similarities, ranked = rank(queries, documents, 10, as_numpy=True)
    for row in range(2):
        whole = (queries @ documents.T)[row].numpy()
        expected = np.argsort(whole)[-10:]
        assert set(ranked[row]) == set(expected.tolist())
        np.testing.assert_allclose(similarities[row], np.sort(whole)[::-1][:10])
