"""Reading one cell of a run store, the runs of one model on one dataset: `ingest` spreads cells over processes.

These processes import this module and no pandas, so that they start quickly. A run is sealed if it has a manifest,
`run.json`, which says what it was made from and has the hashes of its other files (`benchmarks.runs`). The runs of the
release have none.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import numpy.typing as npt
import orjson

from analysis.store.instances import RunScores, write_cell
from analysis.store.scan import CellFolder, Problem
from benchmarks.protocol import PAPER, STANDARD, Dataset
from benchmarks.results_json import (
    MEAN_TOLERANCE,
    ResultsError,
    counted_scores,
    read_results,
)
from benchmarks.run_fields import RUN_FIELDS
from benchmarks.runs import (
    CLUSTERS,
    DETAILS,
    RERUN,
    RESULTS,
    RUN,
    SCORED_SPLITS,
    NotItselfError,
    RunKey,
    clusters_hash,
    read_run,
)
from common.files import sha256_bytes
from common.manifest import FILES
from common.reading import UnreadableError, read_bounded

_BARE = f"has no {RUN}, unlike other runs of its cell, so its origin is unknown; remove it, or {RERUN}"
_OTHER_DETAILS = f"has a {DETAILS} that does not match its {RUN}; {RERUN}"
_SHARED = tuple(field for field in RUN_FIELDS if field.decides != "may matter")
"""The fields of a manifest that decide whether runs compare."""
ClusterIds = dict[str, npt.NDArray[np.int32]]
"""By split, the number of the cluster that each instance is in; empty where no clusters are known."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Run:
    """A usable run: a row of the runs table (`analysis.store.runs_table`), and what only its folder says."""

    model: str
    task: str
    dataset: str
    lr: float
    seed: int
    validation_score: float
    test_score: float
    n_validation: int
    n_test: int
    path: str
    """Its folder, below `results`."""
    marks: tuple[int, int] = (0, 0)
    """Checksums of the scores by instance, of validation and test: equal where all scores of a split are equal."""
    sealed: bool = False
    """Whether it has a manifest."""
    details: str = ""
    """The hash of details.json, with its losses and standard metrics; empty without a manifest."""
    made: str = ""
    """What it was made from, as JSON (`_made_from`); empty without a manifest."""


def read_cell(
    results: Path, cell: CellFolder, instances: Path | None, protocol: str = PAPER
) -> tuple[list[Run], list[Problem], str]:
    """Read all runs of a cell, and write their per-instance scores.

    Args:
        results: the folder `results` of the store.
        cell: the cell's runs by the names of their folders.
        instances: folder for the per-instance scores; None: they are not written.
        protocol: `paper`, `standard`, or the name of a metric (`benchmarks.results_json.counted_scores`). Scores by
            instance are always by the paper's metric; on a dataset of one's own, by the metric that the dataset names,
            if that is a mean over instances.

    Returns:
        The usable runs, sorted by learning rate and seed; what is wrong, sorted, with paths below `results`; and the
        SHA-256 of the file with the per-instance scores, empty where none was written.
    """
    problems: list[Problem] = []
    runs: dict[tuple[float, int], Run] = {}  # by rate and seed
    scores: list[RunScores] = []

    # Clusters by their hash; the empty hash is that of a run without clusters.
    clusters: dict[str, ClusterIds] = {"": {}}
    # None: no scores by instance are written, so that no run's clusters are read.
    wanted_clusters = clusters if instances is not None else None

    # A folder's rate may be spelled 1e-4 or 0.0001 as well. If a run is there in two spellings, the one that is read
    # first counts: the release's, 1e-04, which `key.folder` has. False, for that spelling, sorts before True.
    def spelling_order(item: tuple[str, RunKey]) -> tuple[bool, str]:
        name, key = item
        return key.folder.name != name, name

    # Each folder gives a run or a problem.
    for name, key in sorted(cell.runs.items(), key=spelling_order):
        run_path = f"{cell.name}/{name}"
        try:
            run, run_scores = _read_run(
                results, run_path, key, cell.dataset, protocol, wanted_clusters
            )
        except ResultsError as error:
            path = f"{run_path}/{RESULTS}"
            if error.kind in ("standard", "changed"):
                path = run_path  # such an error is about the run's other files
            problems.append(
                Problem(path=path, kind=error.kind, sentence=error.sentence)
            )
            continue

        # The run that was read first with this rate and seed: this one, unless an earlier folder had them.
        first = runs.setdefault((run.lr, run.seed), run)
        if first is run:
            scores.append(run_scores)
        else:
            problems.append(
                Problem(path=run_path, kind="duplicate", sentence=_repeats(first, run))
            )

    # `benchmarks run` seals every run, and the release none: beside sealed runs, one without a manifest has lost it or
    # comes from elsewhere.
    is_mixed = len({run.sealed for run in runs.values()}) > 1
    if is_mixed:
        sealed_runs = {}
        for rate_and_seed, run in runs.items():
            if run.sealed:
                sealed_runs[rate_and_seed] = run
            else:
                problems.append(Problem(path=run.path, kind="changed", sentence=_BARE))

        runs = sealed_runs
        scores = [of_run for of_run in scores if (of_run.lr, of_run.seed) in runs]

    # What is left is written.
    sha256 = ""
    if instances is not None and runs:
        sha256 = write_cell(instances, cell.model, cell.dataset, scores)
    return [runs[key] for key in sorted(runs)], sorted(problems), sha256


def _read_run(
    results: Path,
    run_path: str,
    key: RunKey,
    dataset: Dataset,
    protocol: str,
    clusters: dict[str, ClusterIds] | None,
) -> tuple[Run, RunScores]:
    """Return a run and its scores by instance.

    Args:
        results: the folder `results` of the store.
        run_path: the run's folder, below `results`.
        key: which run its name says it is.
        dataset: the dataset that it was evaluated on.
        protocol: as of `read_cell`.
        clusters: the clusters that were read before, by their hash; those of this run are added, since most runs of a
            cell have the same. None: scores by instance are not written, so that neither clusters nor the scores by a
            metric of one's own are read.

    Raises:
        ResultsError: a file of the run is damaged, missing, or not the one that its manifest names.
    """
    # The files: the manifest, and the results that it has a hash of.
    folder = results / run_path
    try:
        record = read_run(folder)
    except NotItselfError as error:
        raise ResultsError("changed", error.reason) from None

    hashes = record.get(FILES, {})
    # A run without a manifest, as in the release, has no hash to compare with. A manifest without the hash gives "",
    # which no file has.
    sha256 = hashes.get(RESULTS, "") if record else None
    validation, test = read_results(folder / RESULTS, sha256)

    # The row of the runs table. Its scores are by the protocol, and need not be those of results.json.
    papers_scores = (validation.score, test.score)
    validation_score, test_score = counted_scores(
        record, dataset, protocol, papers_scores
    )
    marks = (crc32(validation.scores.data), crc32(test.scores.data))
    run = Run(
        path=run_path,
        model=key.model,
        task=dataset.task,
        dataset=dataset.name,
        lr=key.lr,
        seed=key.seed,
        validation_score=validation_score,
        test_score=test_score,
        n_validation=len(validation.scores),
        n_test=len(test.scores),
        marks=marks,
        sealed=bool(record),
        details=hashes.get(DETAILS, ""),
        # Interned: the runs of a cell were mostly made alike, and then share one text.
        made=sys.intern(_made_from(record)),
    )

    # The scores by instance: by the paper's metric, and if they are written, by the one that the run counts by.
    instances = {"validation": validation.scores, "test": test.scores}
    cluster_ids: ClusterIds = {}
    # The scores are not written, so that `read_cell` makes no use of them.
    if clusters is None:
        return run, RunScores(
            lr=key.lr, seed=key.seed, **instances, clusters=cluster_ids
        )

    validation_gap = abs(validation_score - validation.score)
    test_gap = abs(test_score - test.score)
    # results.json has scores by the paper's metric; those by the metric of a dataset of one's own are in
    # details.json. A gap shows that the run counts by the latter: scores by instance are wanted only for the
    # paper's protocol (`ingest`, `analysis.sources`), in which nothing else makes a gap.
    if max(validation_gap, test_gap) > MEAN_TOLERANCE:
        of_metric = _of_own_metric(folder, record, dataset.headline, run)
        # None for a metric that is not a mean over instances: then the paper's scores stay.
        instances = of_metric or instances

    # The clusters of its instances, which must be as many as its scores.
    clusters_sha256 = str(record.get(CLUSTERS, ""))
    if clusters_sha256 not in clusters:
        clusters[clusters_sha256] = _clusters(folder, clusters_sha256)
    cluster_ids = clusters[clusters_sha256]
    counts = dict(zip(SCORED_SPLITS, (run.n_validation, run.n_test), strict=True))
    for split, ids in cluster_ids.items():
        if len(ids) != counts[split]:
            raise ResultsError(
                "value",
                f"has {counts[split]:,} {split} instances, but clusters for {len(ids):,}; {RERUN}",
            )

    return run, RunScores(lr=key.lr, seed=key.seed, **instances, clusters=cluster_ids)


def _of_own_metric(
    folder: Path, record: Mapping[str, Any], metric: str, run: Run
) -> dict[str, npt.NDArray[np.float64]] | None:
    """Return by split the score of a run on each instance, by the metric that a dataset of one's own names.

    None where that metric is not a mean over instances, such as an F1 over all entities or a correlation.

    Raises:
        ResultsError: details.json, which has these scores, is not there, or is not the one that the manifest names.
    """
    try:
        content = read_bounded(folder / DETAILS)
        if sha256_bytes(content) != record[FILES][DETAILS]:
            raise KeyError  # told by the same sentence as the errors of a damaged file
        standard = orjson.loads(content)[STANDARD]
    except (OSError, UnreadableError, ValueError, KeyError, TypeError):
        raise ResultsError("changed", _OTHER_DETAILS) from None

    scores_of = {}
    for split, score, count in (
        ("validation", run.validation_score, run.n_validation),
        ("test", run.test_score, run.n_test),
    ):
        try:
            values = np.array(standard[split][metric], dtype=np.float64)
        except (KeyError, TypeError, ValueError):
            return None

        if values.shape != (count,):
            return None
        is_their_mean = abs(values.mean() - score) <= MEAN_TOLERANCE
        if not is_their_mean:
            return None
        scores_of[split] = values

    return scores_of


def _clusters(folder: Path, sha256: str) -> ClusterIds:
    """Return the clusters of a run, from its details.json.

    Args:
        folder: the run's folder.
        sha256: the hash of the clusters, as the run's manifest has it.

    Raises:
        ResultsError: the clusters are not there, or have another hash.
    """
    # Clusters with another hash, and a file that cannot be read, both end in the error below.
    try:
        clusters = orjson.loads(read_bounded(folder / DETAILS))[CLUSTERS]
        if clusters_hash(clusters) == sha256:
            # A split of which no clusters are known has an empty list.
            known = {split: ids for split, ids in clusters.items() if ids}
            return {
                split: np.array(ids, dtype=np.int32) for split, ids in known.items()
            }
    except (OSError, UnreadableError, ValueError, KeyError, TypeError):
        pass
    raise ResultsError("changed", _OTHER_DETAILS)


def _repeats(first: Run, run: Run) -> str:
    """Return the sentence about a folder whose run is also in another folder of the cell, which was read first."""
    how = "with the same scores"
    is_same_but_for_path = replace(run, path=first.path) == first
    if not is_same_but_for_path:
        how = f"whose test score is {first.test_score:.4f}, not {run.test_score:.4f}"
    # Of a path such as `model/task/dataset/lr1e-04_sd0`, the last part is the name of the folder.
    return (
        f"repeats the run in {first.path.rpartition('/')[2]}, {how}; remove one of them"
    )


def _made_from(record: Mapping[str, Any]) -> str:
    """Return what a run's record says of its model and of what compared runs share, as JSON that can be compared.

    Empty without a record, and for a record without a description.
    """
    # The section in which `benchmarks run` says what a run was made from; without it, that is not known.
    if not isinstance(record.get("description"), dict):
        return ""
    values: dict[str, Any] = {}
    for field in _SHARED:
        value = field.of(record)
        if isinstance(value, dict):  # each of its parts becomes a field
            values |= {f"{field.name}.{key}": part for key, part in value.items()}
        else:
            values[field.name] = value
    recorded = {name: value for name, value in values.items() if value is not None}
    return orjson.dumps(recorded, option=orjson.OPT_SORT_KEYS).decode()
