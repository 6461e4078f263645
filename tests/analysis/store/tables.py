"""Runs tables for tests."""

from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.protocol import DATASETS, LEARNING_RATES
from pretraining.paper_models import MODELS

ROW = "610m-mlm40-42k,SC,sst2,1e-05,0,0.5,0.5"
HEADER = "model,task,dataset,lr,seed,val_score,test_score"


def table(n: int = 12, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    datasets = [list(DATASETS)[i % 12] for i in range(n)]
    return pd.DataFrame(
        {
            "model": [list(MODELS)[(7 * i) % 51] for i in range(n)],
            "task": [DATASETS[name].task for name in datasets],
            "dataset": datasets,
            "lr": [LEARNING_RATES[i % 6] for i in range(n)],
            "seed": [i // 60 for i in range(n)],
            "validation_score": rng.random(n),
            "test_score": rng.random(n),
            "n_validation": pd.array([100 + i for i in range(n)], dtype="Int64"),
            "n_test": pd.array(
                [None if i % 5 == 0 else i + 1 for i in range(n)], dtype="Int64"
            ),
        }
    )


def csv_file(folder: Path, *lines: str, header: str = HEADER) -> Path:
    path = folder / "runs.csv"
    path.write_text("\n".join((header, *lines)) + "\n")
    return path
