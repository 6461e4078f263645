"""Retrieval: queries, documents and judgements in BEIR's, MS MARCO's or TREC's form, or MLDR's.

A judgement (of a file that TREC calls qrels) says how relevant a document is to a query: 1 or more, or 0 for not
at all. A pair is a query with a positive, a text that answers it; a negative is a text that does not.

The corpus begins with the documents that a judgement of either split names, in the order of the judgements, as in the
release. Of one's own files the other documents follow, unless the definition has only the judged ones searched. MS
MARCO's 8.8 million passages are read once, a batch at a time.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from benchmarks.datasets.column_names import (
    JUDGEMENTS,
    NEGATIVE_NAMES,
    is_negative,
)
from benchmarks.datasets.local_dataset import DatasetContent, table
from benchmarks.datasets.readers.judgement_files import (
    fields_of,
    judged_pairs,
    whole_relevance,
)
from benchmarks.datasets.readers.original_files import (
    BadRowError,
    cells,
    is_text,
    lines,
    pick,
    pick_text,
    row_at,
    rows_of_file,
)
from benchmarks.datasets.readers.reader import HALVES_SEED, ReaderInputs, halve
from benchmarks.datasets.readers.retrieval_texts import wanted_texts
from benchmarks.datasets.schema import NEGATIVES, Row
from benchmarks.protocol import DatasetFiles
from common.errors import UserError, nearest

Judgement = tuple[str, str, int]
"""Query id, document id, relevance."""

_HELD_OUT, _MOST_HELD_OUT, _FEWEST = 0.1, 2_000, 20
"""Where a dataset has only pairs: share and largest number of queries held out for evaluation; fewest queries in all.
"""
_MOST_SEARCHED = 200_000
"""Most documents that are searched if the definition does not say which ones are."""
_NO_NEGATIVES = "the negatives of the training file are left out"


def judgements(paths: Sequence[Path], files: DatasetFiles) -> list[Judgement]:
    """Read a split's judgements: BEIR's TSV, TREC's four columns, `{query: {document: relevance}}` JSON, or rows.

    Raises:
        UserError: a line is no judgement, a relevance is no whole number, or a pair is judged twice, differently.
    """
    judgements: list[Judgement] = []
    # The first relevance of each query and document. A repeated judgement is harmless, a different one is not.
    relevance_of: dict[tuple[str, str], int] = {}
    for path in paths:
        for where, query, doc, value in judged_pairs(path, files):
            with row_at(where):
                score = whole_relevance(value)
                before = relevance_of.setdefault((query, doc), score)
                if before != score:
                    raise BadRowError(
                        f"the query {query} and the document {doc} have the relevance {score} here and {before} "
                        "before; keep one of them"
                    )

                judgements.append((query, doc, score))

    return judgements


def pairs(paths: Sequence[Path], inputs: ReaderInputs) -> pa.Table:
    """Return the training pairs of files as the table `pairs`, with their hard negatives.

    A file has rows with named columns, lines of two or three texts with tabs between, or ids, whose texts stand in the
    files of queries and documents. Negatives are kept only in a dataset of one's own. The paper has none: a query's
    wrong answers are the positives of the other queries of its batch.
    """
    dataset = inputs.dataset
    rows: list[Row] = []
    for path in paths:
        read = _pair_reader(path, inputs)
        for row in read(path, inputs):
            if row["negatives"] and not dataset.is_own:
                inputs.note(_NO_NEGATIVES)
                row["negatives"] = []
            rows.append(row)

    # No pair of the paper's files is left out.
    if dataset.is_own:
        rows = _usable_pairs(rows, inputs)
    # A text that is right for a query in one row must not be trained on as wrong in another.
    # For each query the texts that cannot be its negatives: itself, and its positives in any row.
    right_texts: dict[str, set[str]] = {}
    for row in rows:
        query = row["query"]
        right_texts.setdefault(query, {query}).add(row["positive"])

    n_negatives = 0
    n_left_out = 0
    for row in rows:
        # Each text once, without empty ones; neither is counted as left out.
        negatives = [text for text in dict.fromkeys(row["negatives"]) if text.strip()]
        right = right_texts[row["query"]]
        row["negatives"] = [text for text in negatives if text not in right]
        n_negatives += len(row["negatives"])
        n_left_out += len(negatives) - len(row["negatives"])

    if n_negatives:
        inputs.note(f"hard negatives: {n_negatives:,} of {len(rows):,} pairs")
    if n_left_out:
        inputs.note(
            f"negatives left out because they are their query or its positives: {n_left_out:,}"
        )

    return table("IR", "pairs", rows)


def _pair_reader(
    path: Path, inputs: ReaderInputs
) -> Callable[[Path, ReaderInputs], Iterator[Row]]:
    """Return the function that reads a file's pairs: rows with named columns, lines of texts, or ids."""
    dataset = inputs.dataset
    if not is_text(path):
        return _pair_rows
    # A file whose lines need not name their columns: the first line shows what they have.
    first = next((line for _, line in lines(path)), "")
    if dataset.is_own and _is_header(first.split("\t"), dataset.files):
        return _pair_rows
    return _joined if _are_ids(first) else _pair_lines


def _usable_pairs(rows: Sequence[Row], inputs: ReaderInputs) -> list[Row]:
    """Return the pairs whose two texts are not empty and differ; the number of pairs left out is noted."""
    pairs = []
    empty = 0
    equal = 0
    for row in rows:
        if not row["query"].strip() or not row["positive"].strip():
            empty += 1
        elif row["query"] == row["positive"]:
            equal += 1
        else:
            pairs.append(row)

    if empty:
        inputs.note(
            f"pairs left out because their query or positive is empty: {empty:,}"
        )

    if equal:
        inputs.note(f"pairs left out because their texts are equal: {equal:,}")
    return pairs


def _is_header(fields: Sequence[str], files: DatasetFiles) -> bool:
    """Return whether the columns of a file have names: in its first line, which has these fields, or in `header`.

    A first line is one of names if it has both a name for the query and one for the positive.
    """
    if files.header:
        return True
    names = set(fields)
    names_query = not names.isdisjoint(files.columns["query"])
    return names_query and not names.isdisjoint(files.columns["positive"])


def _pair_rows(path: Path, inputs: ReaderInputs) -> Iterator[Row]:
    """Yield the pairs of a file of rows, a pair for each positive; a column may have one text or a list of texts.

    In files of one's own, a column that is neither read nor in the definition's `ignore` is refused, and so is a row
    with a label of 0.
    """
    files = inputs.dataset.files
    named_negatives = files.columns.get("negatives", ())
    # Whether each column seen so far has negatives: rows of JSON may differ in their columns.
    is_negatives_column: dict[str, bool] = {}
    for where, row in rows_of_file(path, files):
        with row_at(where):
            query = pick_text(row, files.columns["query"])
            positives = _texts("positive", pick(row, files.columns["positive"]))
            if not positives:
                raise BadRowError("the row has no positive")

            # Whether a column has negatives, or is one to refuse, is decided in the first row that has it.
            # Columns that are new in this row and have no negatives.
            others = []
            for name in row:
                if name in is_negatives_column:
                    continue
                is_negatives = is_negative(name)

                # Columns that the definition names for negatives take the place of the usual names.
                if named_negatives:
                    is_negatives = name in named_negatives
                is_negatives_column[name] = is_negatives
                if not is_negatives:
                    others.append(name)

            if inputs.dataset.is_own:
                _check_columns(row, others, files)
            # Every pair of this row gets this list: `pairs` puts another in its place and never changes it.
            negatives = []
            for name, value in row.items():
                if value is not None and is_negatives_column[name]:
                    negatives += _texts(name, value)

            for text in positives:
                yield {"query": query, "positive": text, "negatives": negatives}

    # Rows of JSON may lack a column, but one that the definition names must be in some row.
    if named_negatives and not any(is_negatives_column.values()):
        columns = ", ".join(map(repr, is_negatives_column))
        raise UserError(
            f"{path}: there is no column {named_negatives[0]}; the columns are {columns}"
        )


def _check_columns(row: Row, others: Sequence[str], files: DatasetFiles) -> None:
    """Refuse a row whose label says that it is no pair, and columns of which nothing is read.

    Args:
        row: a row of a file of pairs.
        others: its columns that have no negatives and that no earlier row had.
        files: names the columns that are read, and those that may be ignored.
    """
    # A file may have both pairs and texts that do not belong together, and label which is which. Without the label, a
    # model would be trained on wrong answers.
    for name in JUDGEMENTS["relevance"]:
        # Without this column it is `none`, which is not among the values below.
        label = str(row.get(name)).lower()
        if label in ("0", "0.0", "-1", "-1.0", "false"):
            raise BadRowError(
                f"{name} is {row[name]}, so that the texts are no pair; leave out such rows"
            )

    expected = set(files.ignore)
    for field in ("query", "positive"):
        # The row has a query and a positive: the caller has read both. Of several names the first one counts.
        present = [name for name in files.columns[field] if name in row]
        expected.add(present[0])

    # A misspelt column of negatives would otherwise be dropped silently.
    for name in others:
        if name not in expected:
            meant = nearest(name, NEGATIVE_NAMES, at_least=0.8)
            raise BadRowError(
                f"nothing is read of the column {name!r:.40}{meant}; rename it, or set "
                f"ignore = [{name!r:.40}] in {files.where}"
            )


def _texts(name: str, value: Any) -> list[str]:
    """Return the texts of a column whose value is one text or a list of texts; `BadRowError` for another value."""
    values = value if isinstance(value, list) else [value]
    # Through `pick_text`, which refuses a missing value and one that is not a text, and names the column.
    return [pick_text({name: text}, (name,)) for text in values]


def _are_ids(line: str) -> bool:
    """Return whether a file with this first line has judgements, or triples of ids in place of texts.

    MS MARCO's triples are the ids of a query, a positive and a negative.
    """
    fields = fields_of(line)
    if len(fields) == 3:
        query, document, _ = (field.lower() for field in fields)
        if query in JUDGEMENTS["query"] and document in JUDGEMENTS["document"]:
            return True
        return all(field.isdigit() for field in fields)
    # The second column of TREC's judgements is 0 or Q0, whatever the judgement.
    return len(fields) == 4 and fields[1] in ("0", "Q0")


def _pair_lines(path: Path, inputs: ReaderInputs) -> Iterator[Row]:
    """Yield the pairs of a file of lines: a query, its positive and perhaps a negative, with tabs between."""
    for number, (query, *passages) in cells(path, inputs.dataset.files):
        is_pair = len(passages) in (1, 2)
        # A number in the last place is a label, not a text; the paper's files are not checked.
        if is_pair and inputs.dataset.is_own:
            is_pair = not passages[-1].strip().isdecimal()
        if not is_pair:
            hint = "; columns of other kinds need their names in the first line"
            if not passages:
                hint = "; judgements have TREC's four columns, Q0 or 0 second, or BEIR's header"
            raise UserError(
                f"{path}:{number}: the line is not a query, a passage and perhaps a negative, with tabs between{hint}"
            )

        # The first line may be a header, which begins with the name of the queries' column.
        if number > 1 or query not in ("query", "anchor"):
            positive, *negatives = (text.strip() for text in passages)
            yield {"query": query.strip(), "positive": positive, "negatives": negatives}


def _joined(path: Path, inputs: ReaderInputs) -> Iterator[Row]:
    """Yield the pairs that a file names by ids, with their texts from the files of queries and of documents.

    The file has triples of ids, or judgements, of which those of 1 or more make a pair.
    """
    # There is a first line: `_pair_reader` has seen ids in it.
    _, first_line = next(lines(path))
    first = fields_of(first_line)
    # In each row the ids of a query, of its positive and perhaps of a negative.
    rows_of_ids = []

    # Three numbers are a triple, as in `_are_ids`. The first line of judgements has names, or four columns.
    if len(first) == 3 and all(field.isdigit() for field in first):
        for _, line in lines(path):
            rows_of_ids.append(fields_of(line))
    else:
        for query, doc, score in judgements([path], inputs.dataset.files):
            if score >= 1:
                rows_of_ids.append([query, doc])

    # Only the texts of these ids are read: the files of texts may be far larger.
    query_ids: dict[str, None] = {}
    doc_ids: dict[str, None] = {}
    for query, *ids in rows_of_ids:
        query_ids[query] = None
        doc_ids |= dict.fromkeys(ids)

    queries = _query_texts(inputs, query_ids)
    # Only the documents of these ids, without titles: the table of pairs has a column for the text only.
    docs = _documents(inputs, doc_ids, titles=False)
    for query, *ids in rows_of_ids:
        positive, *negatives = (docs[doc]["text"] for doc in ids)
        yield {"query": queries[query], "positive": positive, "negatives": negatives}


def retrieval(
    splits: Mapping[str, list[Judgement]],
    queries: Mapping[str, str],
    docs: Mapping[str, Row],
    inputs: ReaderInputs,
) -> dict[str, pa.Table]:
    """Return the tables `queries`, `corpus` and `qrels`.

    A query without a text, or to which no document is relevant, is left out.

    Args:
        splits: judgements of `validation` and `test`.
        queries: texts by query id.
        docs: `title` and `text` by document id. A judged document that is missing here stays in the judgements, and so
            in the ideal ranking that NDCG compares with, as in trec_eval.
        inputs: takes a note of the number of queries to which nothing is relevant.
    """
    # Queries and judgements, by split.
    query_rows: list[Row] = []
    qrel_rows: list[Row] = []
    for split, judgements in splits.items():
        relevant = {query for query, _, score in judgements if score >= 1}
        judged = dict.fromkeys(query for query, _, _ in judgements)
        if len(relevant) < len(judged):
            dropped = len(judged) - len(relevant)
            inputs.note(
                f"{split} queries without a relevant document left out: {dropped}; the documents judged for them stay"
            )

        usable = relevant & queries.keys()
        for query in judged:
            if query in usable:
                query_rows.append({"split": split, "id": query, "text": queries[query]})

        for query, doc, score in judgements:
            if query in usable:
                judgement = {"query_id": query, "doc_id": doc, "relevance": score}
                qrel_rows.append({"split": split, **judgement})

    # The corpus, also with the documents that were judged only for queries that are left out.
    corpus_rows = []
    # Judged documents come first, in the order of the judgements.
    for doc in dict.fromkeys([*_judged(splits), *docs]):
        if doc in docs:
            corpus_rows.append({"id": doc, **docs[doc]})

    return {
        "queries": table("IR", "queries", query_rows),
        "corpus": table("IR", "corpus", corpus_rows),
        "qrels": table("IR", "qrels", qrel_rows),
    }


def _judged(splits: Mapping[str, list[Judgement]]) -> dict[str, None]:
    """Return the ids of the judged documents of both splits as keys, in the order of the judgements."""
    return dict.fromkeys(
        doc for judgements in splits.values() for _, doc, _ in judgements
    )


def _query_texts(
    inputs: ReaderInputs, wanted: Mapping[str, object], *, some: bool = False
) -> dict[str, str]:
    """Return the wanted queries' texts by id; `some`: a note, not an error, says that some of them are missing."""
    text_of: dict[str, str] = {}
    for path in inputs.need("queries", "the queries' texts"):
        texts = wanted_texts(path, wanted, inputs.dataset.files)
        for where, identity, _, text in texts:
            # The value left out above is the title, which is not read of a query.
            if text_of.setdefault(identity, text) != text:
                raise UserError(
                    f"{where}: the query {identity} has a different text further up"
                )
    _check_complete(wanted, text_of, "query", inputs, some=some)
    return text_of


def _documents(
    inputs: ReaderInputs,
    wanted: Mapping[str, object],
    *,
    titles: bool,
    corpus: str = "judged",
    some: bool = False,
) -> dict[str, Row]:
    """Return documents by id, each with `title` and `text`.

    Args:
        inputs: has the files of documents.
        wanted: the ids of the judged documents, as keys.
        titles: whether documents keep their titles.
        corpus: which documents are returned: `judged`, `all`, or "" for all if they are not too many.
        some: whether a note, not an error, says that some of the wanted documents are missing.
    """
    documents: dict[str, Row] = {}
    # None: all are read. An empty `corpus` also reads all, and stops where they are too many.
    read_ids = wanted if corpus == "judged" else None
    for path in inputs.need("corpus", "the documents' texts"):
        texts = wanted_texts(path, read_ids, inputs.dataset.files)
        for where, identity, title, text in texts:
            document = {"title": title if titles else None, "text": text}
            if documents.setdefault(identity, document) != document:
                raise UserError(
                    f"{where}: the document {identity} has a different text further up"
                )

            if not corpus and len(documents) > _MOST_SEARCHED:
                raise UserError(
                    f"{path} has more than {_MOST_SEARCHED:,} documents; set corpus = 'all', or 'judged' for those "
                    f"with judgements, in {inputs.dataset.files.where}"
                )

    _check_complete(wanted, documents, "document", inputs, some=some)
    if corpus != "judged":
        count = sum(identity in documents for identity in wanted)
        inputs.note(
            f"documents that are searched: {len(documents):,}, of which {count:,} are judged"
        )

    return documents


def _check_complete(
    wanted: Mapping[str, object],
    found: Mapping[str, object],
    what: str,
    inputs: ReaderInputs,
    *,
    some: bool = False,
) -> None:
    """Refuse judged ids that no file has; with `some`, only note their number, unless all are missing.

    Args:
        wanted: the judged ids, as keys.
        found: what the files have, by id.
        what: `query` or `document`.
        inputs: takes the note.
        some: whether some ids may be missing.
    """
    missing = [identity for identity in wanted if identity not in found]
    if missing:
        role = {"query": "queries", "document": "corpus"}[what]
        files = ", ".join(map(str, inputs.of(role)))
        sentence = (
            f"judged {what} ids missing from {files}: {len(missing):,} (first: "
            f"{missing[0]!r})"
        )

        # If all ids are missing, the judgements belong to another dataset.
        if not some or len(missing) == len(wanted):
            raise UserError(sentence)

        # A query without its text cannot be searched for. A document without its text cannot be found, but NDCG still
        # compares with a ranking in which it is.
        effect = "left out" if what == "query" else "they count in the ideal ranking"
        inputs.note(f"{sentence}; {effect}")


def read(inputs: ReaderInputs, *, titles: bool = True) -> DatasetContent:
    """Read a retrieval set with judgements of two splits, or of one, whose queries are halved as NQ's are.

    Args:
        inputs: judgements; texts of queries and documents; pairs, if a model is trained on this dataset.
        titles: whether documents keep their titles.
    """
    dataset = inputs.dataset
    # The files of these roles are judgements. One's own may have only pairs, some of which then serve as
    # judgements.
    is_judged = bool(inputs.of("validation") or inputs.of("test"))
    if dataset.is_own and inputs.of("train") and not is_judged:
        return _of_pairs(inputs)

    # The judgements, by split.
    splits = {
        role: judgements(inputs.of(role), dataset.files)
        for role in ("validation", "test")
    }

    # Without test queries there is nothing to score, while those for validation can be taken from them.
    inputs.need("test", "the judgements of the test queries")
    how = "as given: judgements of two splits"
    if not splits["validation"]:
        splits = _halved(splits["test"])
        how = f"validation is half of the queries, random.Random({HALVES_SEED}).sample of their sorted ids"

    # The tables: the training pairs, if any, and what is searched.
    tables = {}
    if dataset.trained_on == dataset.name:
        tables["pairs"] = pairs(inputs.need("train", "training pairs"), inputs)
    judged_queries = dict.fromkeys(
        query for of_split in splits.values() for query, _, _ in of_split
    )

    # In a dataset of one's own some texts may be missing: a note says how many. In the paper's none may.
    queries = _query_texts(inputs, judged_queries, some=dataset.is_own)
    docs = _documents(
        inputs,
        _judged(splits),
        titles=titles,
        corpus=dataset.files.corpus,
        some=dataset.is_own,
    )
    tables |= retrieval(splits, queries, docs, inputs)
    return DatasetContent(tables=tables, splits=how, notes=tuple(inputs.notes))


def _halved(judgements: Sequence[Judgement]) -> dict[str, list[Judgement]]:
    """Return the judgements of a split as those of two: half of its queries for validation, half for test.

    D5: the paper halves NQ without a seed, so each of its runs has other queries; here a seed is fixed.
    """
    for_validation = halve(query for query, _, _ in judgements)
    halves: dict[str, list[Judgement]] = {"validation": [], "test": []}
    for judgement in judgements:
        query = judgement[0]
        split = "validation" if query in for_validation else "test"
        halves[split].append(judgement)
    return halves


def _of_pairs(inputs: ReaderInputs) -> DatasetContent:
    """Read a retrieval set that has only pairs: a tenth of the queries is held out, half for validation, half for test.

    All pairs of a held-out query become judgements: a positive is relevant, a negative is not. The corpus has the
    documents of these pairs, or of all pairs if the definition says so.
    """
    rows = pairs(inputs.of("train"), inputs).to_pylist()
    query_texts = sorted({row["query"] for row in rows})
    if len(query_texts) < _FEWEST:
        raise UserError(
            f"{inputs.dataset.name} has pairs of {len(query_texts)} different queries, too few to hold some of them "
            f"out; give at least {_FEWEST}, or judgements (--test) with --queries and --corpus"
        )

    # Which queries are held out. At least two: one for each split.
    count = min(_MOST_HELD_OUT, max(2, round(_HELD_OUT * len(query_texts))))
    held_out = random.Random(HALVES_SEED).sample(query_texts, count)
    # `halve` takes ids; here the texts of the queries stand for them.
    for_validation = halve(held_out)

    # Pairs have no ids: each text gets one, and these are the ids by text.
    query_ids = {text: f"q{number}" for number, text in enumerate(held_out)}
    doc_ids: dict[str, str] = {}

    # Pairs of held-out queries become judgements, and the others stay to train on.
    # Judgements as keys: a pair may occur twice. It has one relevance, as `pairs` leaves out negatives that
    # are positives of their query.
    splits: dict[str, dict[Judgement, None]] = {"validation": {}, "test": {}}
    train_rows = []
    for row in rows:
        query_id = query_ids.get(row["query"])
        # Only held-out queries have an id.
        if query_id is None:
            train_rows.append(row)
            continue

        split = "validation" if row["query"] in for_validation else "test"
        positive, *negatives = _documents_of(row)
        # `_id_of` also enters the text into `doc_ids`, which so becomes the corpus.
        splits[split][query_id, _id_of(positive, doc_ids, query_ids), 1] = None
        for text in negatives:
            splits[split][query_id, _id_of(text, doc_ids, query_ids), 0] = None

    # What is searched, and how the manifest says so.
    among = "their own documents"
    more = "; corpus = 'all' adds those of the other pairs"
    if inputs.dataset.files.corpus == "all":
        for row in train_rows:
            for text in _documents_of(row):
                # Only to enter the text into `doc_ids`: the texts there are searched.
                _id_of(text, doc_ids, query_ids)
        among = "the documents of all pairs"
        more = ""

    # All rows of a table have the same columns.
    if NEGATIVES in rows[0]:
        among = f"{among} and negatives"

    # From here in the form of `read`: texts by id.
    judged = {split: list(judgements) for split, judgements in splits.items()}
    queries = {identity: text for text, identity in query_ids.items()}
    docs: dict[str, Row] = {}
    for text, identity in doc_ids.items():
        docs[identity] = {"title": None, "text": text}
    tables = retrieval(judged, queries, docs, inputs)
    tables["pairs"] = table("IR", "pairs", train_rows)
    how = (
        f"{count} of {len(query_texts)} queries are held out, random.Random({HALVES_SEED}).sample of them sorted, half "
        f"of them for validation; they are asked of {among}{more}"
    )
    return DatasetContent(tables=tables, splits=how, notes=tuple(inputs.notes))


def _documents_of(row: Row) -> list[str]:
    """Return a pair's positive, then its negatives."""
    return [row["positive"], *row.get(NEGATIVES, ())]


def _id_of(text: str, doc_ids: dict[str, str], query_ids: Mapping[str, str]) -> str:
    """Return the id of a document's text; a text that has none gets the next one, which `doc_ids` keeps."""
    # A document with a query's text gets the query's id: the evaluation does not count it as the query's answer then.
    return doc_ids.setdefault(text, query_ids.get(text, f"d{len(doc_ids)}"))


def read_msmarco(inputs: ReaderInputs) -> DatasetContent:
    """Read MS MARCO; the paper reads its documents without titles, which are empty in BEIR's files."""
    inputs.need("validation", "the judgements of the dev queries")
    return read(inputs, titles=False)


def read_mldr(inputs: ReaderInputs) -> DatasetContent:
    """Read MLDR: rows of a query with its positive passages, and a corpus for passages that come without text."""
    splits: dict[str, list[Judgement]] = {}
    queries: dict[str, str] = {}
    docs: dict[str, Row] = {}
    for split in ("validation", "test"):
        paths = inputs.need(
            split, f"the queries of its {split} split with their positive passages"
        )
        splits[split] = []
        for path in paths:
            for where, row in rows_of_file(path, inputs.dataset.files):
                with row_at(where):
                    query = str(row["query_id"])
                    queries[query] = row["query"]
                    for passage in row["positive_passages"]:
                        doc = str(passage["docid"])
                        splits[split].append((query, doc, 1))
                        text = passage.get("text")
                        if text is not None:
                            docs[doc] = {"title": None, "text": text}

    wanted = _judged(splits)
    for path in inputs.of("corpus"):
        for _, identity, _, text in wanted_texts(path, wanted, inputs.dataset.files):
            docs[identity] = {"title": None, "text": text}

    # A judged document still lacks its text: either no corpus was given, or it does not have the document.
    if not wanted.keys() <= docs.keys():
        inputs.need("corpus", "the texts of its positive passages")
        _check_complete(wanted, docs, "document", inputs)

    return DatasetContent(
        tables=retrieval(splits, queries, docs, inputs),
        splits="validation is dev, test is test; the corpus holds the positive documents of both",
        notes=tuple(inputs.notes),
    )
