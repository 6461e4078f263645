"""Retrieval: queries, documents and judgements in BEIR's, MS MARCO's or TREC's form, or MLDR's.

Documents that a judgement of either split names are written, in the order of the judgements, as in the release; of
one's own files the others follow, unless only the judged ones are to be searched. The 8.8 million passages are read
once, a batch at a time.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from benchmarks.datasets.column_names import (
    JUDGEMENTS,
    NEGATIVE_NAMES,
    TEXTS,
    is_negative,
)
from benchmarks.datasets.local_dataset import DatasetContent, table
from benchmarks.datasets.readers.original_files import (
    BadRowError,
    cells,
    is_missing,
    is_text,
    is_whole_json,
    json_of,
    lines,
    pick,
    pick_text,
    row_at,
    rows_of_file,
    typed_file,
    words_of,
)
from benchmarks.datasets.readers.reader import HALVES_SEED, ReaderInputs, halve
from benchmarks.datasets.schema import NEGATIVES, Row
from benchmarks.protocol import DatasetFiles
from common.errors import UserError, nearest
from common.packed import plain_suffix
from common.progress import progress

Judgement = tuple[str, str, int]
"""Query id, document id, relevance."""

_HELD_OUT, _MOST_HELD_OUT, _FEWEST = 0.1, 2_000, 20
"""Share and largest number of the queries that are held out of pairs alone, and how many there must be."""
_MOST_SEARCHED = 200_000
"""Documents that are searched unless the definition says which."""
_NO_NEGATIVES = "the negatives of the training file are left out"


def judgements(paths: Sequence[Path], files: DatasetFiles) -> list[Judgement]:
    """Read a split's judgements: BEIR's TSV, TREC's four columns, `{query: {document: relevance}}` JSON, or rows.

    Raises:
        UserError: a line is no judgement, a relevance is no whole number, or a pair is judged twice, differently.
    """
    judgements: list[Judgement] = []
    relevance_of: dict[tuple[str, str], int] = {}
    for path in paths:
        for where, query, doc, value in _judged_pairs(path, files):
            with row_at(where):
                score = _relevance(value)
                before = relevance_of.setdefault((query, doc), score)
                if before != score:
                    raise BadRowError(
                        f"the query {query} and the document {doc} have the relevance {score} here and {before} "
                        "before; keep one of them"
                    )
                judgements.append((query, doc, score))
    return judgements


def _judged_pairs(
    path: Path, files: DatasetFiles
) -> Iterator[tuple[str, str, str, Any]]:
    """Yield (where, query id, document id, relevance as written)."""
    content = None
    if is_whole_json(path):
        content = json_of(path)
    if isinstance(content, dict):
        for query, docs in content.items():
            with row_at(f"{path}: {query}"):
                if not isinstance(docs, dict):
                    raise BadRowError(
                        'the judgements have no relevances; write {"query": {"document": 1}}'
                    )
                for doc, value in docs.items():
                    yield f"{path}: {query}", query, doc, value
    elif is_text(path):
        for number, line in lines(path):
            fields = _fields(line)
            is_header = number == 1 and fields[0].lower() in JUDGEMENTS["query"]
            if is_header or not any(fields):
                continue
            # TREC's second column is always the same.
            if len(fields) == 4:
                fields = [fields[0], *fields[2:]]
            if len(fields) != 3:
                hint = ""
                # A TREC run has what a system retrieved, not what people judged.
                if len(fields) == 6:
                    hint = "; it looks like a line of a TREC run, give the judgements (qrels)"
                raise UserError(
                    f"{path}:{number}: the line is not a judgement (query, document, relevance){hint}"
                )
            yield f"{path}:{number}", fields[0], fields[1], fields[2]
    else:
        for where, row in rows_of_file(path, files):
            with row_at(where):
                query = str(pick(row, JUDGEMENTS["query"]))
                document = str(pick(row, JUDGEMENTS["document"]))
                yield where, query, document, pick(row, JUDGEMENTS["relevance"])


def _fields(line: str) -> list[str]:
    """Return the columns of a line: between its tabs, where it has some, so that ids may have blanks."""
    if "\t" not in line:
        return line.split()
    return [field.strip() for field in line.split("\t")]


def _relevance(value: Any) -> int:
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise BadRowError(
            f"the line is not a judgement (query, document, relevance): {value!r:.80} is not a number"
        ) from None
    if not number.is_integer():
        raise BadRowError(
            f"the relevance {value} is not a whole number; write grades such as 0, 1, 2"
        )
    return int(number)


Text = tuple[str, str, str | None, str]
"""Where it is, id, title, text."""


def wanted_texts(
    path: Path, wanted: Mapping[str, object] | None, files: DatasetFiles
) -> Iterator[Text]:
    """Yield (where, id, title or None, text) of the rows whose id is wanted, or all; others are not held in memory.

    Read are Parquet and JSON lines with `_id`, `title` and `text`, and TSV lines of id and text.
    """
    if plain_suffix(path) == ".parquet" and wanted is not None:
        yield from _wanted_rows(path, wanted)
    elif is_text(path) and not (files.content and _names_texts(path, files)):
        for number, fields in progress(cells(path, files), path.name, unit="line"):
            if len(fields) > 2 and not files.content:
                # A text of the paper's files may have tabs.
                fields = [fields[0], "\t".join(fields[1:])]
            if len(fields) != 2:
                raise UserError(
                    f"{path}:{number}: the line is not an id, a tab and a text; further columns need their names in "
                    "the first line, such as id, title and text"
                )
            identity, text = (part.strip() for part in fields)
            if wanted is None or identity in wanted:
                yield f"{path}:{number}", identity, None, text
    else:
        # The definition's header describes the file of pairs, not this one.
        files = replace(files, header=())
        for where, row in progress(rows_of_file(path, files), path.name, unit="line"):
            with row_at(where):
                identity = str(pick(row, TEXTS["id"]))
                if wanted is None or identity in wanted:
                    yield where, identity, _title(row), words_of(row, TEXTS["text"])


def _title(row: Row) -> str | None:
    """Return a document's title; None where it has none, for which pandas writes NaN."""
    return None if is_missing(row.get("title")) else words_of(row, ["title"])


def _names_texts(path: Path, files: DatasetFiles) -> bool:
    """Return whether a first line names the columns of ids and of texts."""
    _, first = next(cells(path, files), (1, []))
    return not (
        set(first).isdisjoint(TEXTS["id"]) or set(first).isdisjoint(TEXTS["text"])
    )


def _wanted_rows(path: Path, wanted: Mapping[str, object]) -> Iterator[Text]:
    """Yield the wanted rows of a Parquet file; no other row is read."""
    with typed_file(path) as (schema, _):
        names = schema.names
        keys = [name for name in TEXTS["id"] if name in names]
        texts = [name for name in TEXTS["text"] if name in names]
        if not keys or not texts:
            raise UserError(
                f"{path} has the columns {', '.join(names)}, but needs an id and a text column"
            )
        key = keys[0]
        columns = [key, texts[0]]
        if "title" in names:
            columns.append("title")
        ids = pa.array(list(wanted), pa.string())
        chosen = pc.field(key).cast(pa.string()).isin(ids)
        for row in pq.read_table(path, columns=columns, filters=chosen).to_pylist():
            where = f"{path}: row {row[key]}"
            with row_at(where):
                yield where, str(row[key]), _title(row), words_of(row, texts)


def pairs(paths: Sequence[Path], inputs: ReaderInputs) -> pa.Table:
    """Read (query, positive) pairs: rows, TSV pairs or triples, or training judgements joined with their texts.

    Negatives are kept in a dataset of one's own alone: the paper trains on in-batch negatives.
    """
    dataset, found = inputs.dataset, []
    for path in paths:
        read = _pair_rows
        if is_text(path):
            first = next((line for _, line in lines(path)), "")
            read = _joined if _are_ids(first) else _pair_lines
            if dataset.is_own and _is_header(first.split("\t"), dataset.files):
                read = _pair_rows
        for row in read(path, inputs):
            if row["negatives"] and not dataset.is_own:
                inputs.note(_NO_NEGATIVES)
                row["negatives"] = []
            found.append(row)
    if dataset.is_own:
        found = _without_nothing(found, inputs)
    positives: dict[str, set[str]] = {}
    for row in found:
        positives.setdefault(row["query"], {row["query"]}).add(row["positive"])
    kept = 0
    left_out = 0
    for row in found:
        negatives = [text for text in dict.fromkeys(row["negatives"]) if text.strip()]
        right = positives[row["query"]]
        row["negatives"] = [text for text in negatives if text not in right]
        kept += len(row["negatives"])
        left_out += len(negatives) - len(row["negatives"])
    if kept:
        inputs.note(f"hard negatives: {kept:,} of {len(found):,} pairs")
    if left_out:
        inputs.note(
            f"negatives left out because they are their query or its positives: {left_out:,}"
        )
    return table("IR", "pairs", found)


def _without_nothing(found: Sequence[Row], inputs: ReaderInputs) -> list[Row]:
    """Return the pairs whose two texts are not empty and differ; the number of pairs left out is noted."""
    pairs = []
    empty = 0
    equal = 0
    for row in found:
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
    """Return whether a first line names the columns: a query's and a positive's; or the definition does."""
    columns = (files.columns["query"], files.columns["positive"])
    return bool(files.header) or all(
        not set(fields).isdisjoint(names) for names in columns
    )


def _pair_rows(path: Path, inputs: ReaderInputs) -> Iterator[Row]:
    """Yield the pairs of rows, one for each positive; a column may have one text or a list of them.

    Of one's own files every column is read, or the definition says that it is not; and a label of 0 is refused.
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
            # New columns of this row that have no negatives.
            others = []
            for name in row:
                if name in is_negatives_column:
                    continue
                is_negatives = is_negative(name)
                if named_negatives:
                    is_negatives = name in named_negatives
                is_negatives_column[name] = is_negatives
                if not is_negatives:
                    others.append(name)
            if inputs.dataset.is_own:
                _check_columns(row, others, files)
            negatives = []
            for name, value in row.items():
                if value is not None and is_negatives_column[name]:
                    negatives += _texts(name, value)
            for text in positives:
                yield {"query": query, "positive": text, "negatives": negatives}
    if named_negatives and not any(is_negatives_column.values()):
        there = ", ".join(map(repr, is_negatives_column))
        raise UserError(
            f"{path}: there is no column {named_negatives[0]}; the columns are {there}"
        )


def _check_columns(row: Row, others: Sequence[str], files: DatasetFiles) -> None:
    """Refuse a row that a label calls no pair, and columns that are neither read, nor negatives, nor ignored."""
    # A file may label pairs and non-pairs; read without the labels, it would train on wrong answers.
    for name in JUDGEMENTS["relevance"]:
        label = str(row.get(name)).lower()
        if label in ("0", "0.0", "-1", "-1.0", "false"):
            raise BadRowError(
                f"{name} is {row[name]}, so that the texts are no pair; leave out such rows"
            )
    read = set(files.ignore)
    for field in ("query", "positive"):
        read.add(next(name for name in files.columns[field] if name in row))
    # A misspelt column of negatives would otherwise be dropped silently.
    for name in others:
        if name not in read:
            meant = nearest(name, NEGATIVE_NAMES, at_least=0.8)
            raise BadRowError(
                f"nothing is read of the column {name!r:.40}{meant}; rename it, or set "
                f"ignore = [{name!r:.40}] in {files.where}"
            )


def _texts(name: str, value: Any) -> list[str]:
    """Return a column's text, or its texts; `BadRowError` where it has something else."""
    values = value if isinstance(value, list) else [value]
    return [pick_text({name: text}, (name,)) for text in values]


def _are_ids(line: str) -> bool:
    """Return whether a file with this first line has judgements, or MS MARCO's triples of ids."""
    fields = _fields(line)
    if len(fields) == 3:
        query, document, _ = (field.lower() for field in fields)
        if query in JUDGEMENTS["query"] and document in JUDGEMENTS["document"]:
            return True
        return all(field.isdigit() for field in fields)
    # The second column of TREC's judgements is 0 or Q0, whatever the judgement.
    return len(fields) == 4 and fields[1] in ("0", "Q0")


def _pair_lines(path: Path, inputs: ReaderInputs) -> Iterator[Row]:
    """Yield the pairs of a file of lines: a query, a passage and perhaps a negative, with tabs between."""
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
        # The first line may be a header.
        if number > 1 or query not in ("query", "anchor"):
            positive, *negatives = (text.strip() for text in passages)
            yield {"query": query.strip(), "positive": positive, "negatives": negatives}


def _joined(path: Path, inputs: ReaderInputs) -> Iterator[Row]:
    """Yield the pairs that relevant judgements or triples of ids name, with texts from the other files."""
    _, first_line = next(lines(path))
    first = _fields(first_line)
    rows_of_ids = []
    if len(first) == 3 and all(field.isdigit() for field in first):
        for _, line in lines(path):
            rows_of_ids.append(_fields(line))
    else:
        for query, doc, score in judgements([path], inputs.dataset.files):
            if score >= 1:
                rows_of_ids.append([query, doc])
    query_ids: dict[str, None] = {}
    doc_ids: dict[str, None] = {}
    for query, *ids in rows_of_ids:
        query_ids[query] = None
        doc_ids |= dict.fromkeys(ids)
    queries = _query_texts(inputs, query_ids)
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
    """Return the tables of judged queries and documents.

    Args:
        splits: judgements of `validation` and `test`.
        queries: texts by query id.
        docs: `title` and `text` by document id. A judged one that is missing stays in the judgements, and so in the
            ideal ranking, as in trec_eval.
        inputs: notes the queries that are left out because nothing is relevant to them.
    """
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
        kept = relevant & queries.keys()
        for query in judged:
            if query in kept:
                query_rows.append({"split": split, "id": query, "text": queries[query]})
        for query, doc, score in judgements:
            if query in kept:
                judgement = {"query_id": query, "doc_id": doc, "relevance": score}
                qrel_rows.append({"split": split, **judgement})
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
    """Return the ids of the documents, in the order of the judgements."""
    return dict.fromkeys(doc for found in splits.values() for _, doc, _ in found)


def _query_texts(
    inputs: ReaderInputs, wanted: Mapping[str, object], *, some: bool = False
) -> dict[str, str]:
    """Return the wanted queries' texts by id; with `some`, missing texts are noted rather than refused."""
    found: dict[str, str] = {}
    for path in inputs.need("queries", "the queries' texts"):
        texts = wanted_texts(path, wanted, inputs.dataset.files)
        for where, identity, _, text in texts:
            if found.setdefault(identity, text) != text:
                raise UserError(
                    f"{where}: the query {identity} has a different text further up"
                )
    _check_complete(wanted, found, "query", inputs, some=some)
    return found


def _documents(
    inputs: ReaderInputs,
    wanted: Mapping[str, object],
    *,
    titles: bool,
    corpus: str = "judged",
    some: bool = False,
) -> dict[str, Row]:
    """Return documents by id: the wanted ones, or all if `corpus` says so; without `titles`, titles are left out."""
    documents: dict[str, Row] = {}
    for path in inputs.need("corpus", "the documents' texts"):
        searched = wanted if corpus == "judged" else None
        for where, identity, title, text in wanted_texts(
            path, searched, inputs.dataset.files
        ):
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
    """Refuse judged ids that no file has; with `some`, only note their number, unless all are missing."""
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
        # A query without its text cannot be asked; a document without its text is never found.
        effect = "left out" if what == "query" else "they count in the ideal ranking"
        inputs.note(f"{sentence}; {effect}")


def read(inputs: ReaderInputs, *, titles: bool = True) -> DatasetContent:
    """Read a retrieval set with judgements of both splits, or of one, which is halved as NQ is.

    Args:
        inputs: pairs to train on, where it is trained on itself; judgements; texts of queries and documents.
        titles: whether documents have theirs.
    """
    dataset = inputs.dataset
    is_judged = bool(inputs.of("validation") or inputs.of("test"))
    if dataset.is_own and inputs.of("train") and not is_judged:
        return _of_pairs(inputs)
    splits = {
        role: judgements(inputs.of(role), dataset.files)
        for role in ("validation", "test")
    }
    inputs.need("test", "the judgements of the test queries")
    how = "as given: judgements of two splits"
    if not splits["validation"]:
        # D5: the paper halves NQ without a seed, so each of its runs has other queries; here a seed is fixed.
        chosen = halve(query for query, _, _ in splits["test"])
        halves: dict[str, list[Judgement]] = {"validation": [], "test": []}
        for item in splits["test"]:
            halves["validation" if item[0] in chosen else "test"].append(item)
        splits = halves
        how = f"validation is half of the queries, random.Random({HALVES_SEED}).sample of their sorted ids"
    tables = {}
    if dataset.trained_on == dataset.name:
        tables["pairs"] = pairs(inputs.need("train", "training pairs"), inputs)
    asked = dict.fromkeys(query for found in splits.values() for query, _, _ in found)
    queries = _query_texts(inputs, asked, some=dataset.is_own)
    docs = _documents(
        inputs,
        _judged(splits),
        titles=titles,
        corpus=dataset.files.corpus,
        some=dataset.is_own,
    )
    tables |= retrieval(splits, queries, docs, inputs)
    return DatasetContent(tables=tables, splits=how, notes=tuple(inputs.notes))


def _of_pairs(inputs: ReaderInputs) -> DatasetContent:
    """Read pairs alone: of a tenth of the queries, all pairs are for validation or test.

    Searched are their documents, or those of all pairs where the definition says so; negatives are documents that are
    judged irrelevant.
    """
    rows = pairs(inputs.of("train"), inputs).to_pylist()
    asked = sorted({row["query"] for row in rows})
    if len(asked) < _FEWEST:
        raise UserError(
            f"{inputs.dataset.name} has pairs of {len(asked)} different queries, too few to hold some of them out; "
            f"give at least {_FEWEST}, or judgements (--test) with --queries and --corpus"
        )
    count = min(_MOST_HELD_OUT, max(2, round(_HELD_OUT * len(asked))))
    held_out = random.Random(HALVES_SEED).sample(asked, count)
    for_validation = halve(held_out)
    queries = {text: f"q{number}" for number, text in enumerate(held_out)}
    documents: dict[str, str] = {}
    splits: dict[str, dict[Judgement, None]] = {"validation": {}, "test": {}}
    trained = []
    for row in rows:
        query = queries.get(row["query"])
        if query is None:
            trained.append(row)
            continue
        split = "validation" if row["query"] in for_validation else "test"
        for number, text in enumerate(_documents_of(row)):
            relevance = 1 if number == 0 else 0
            splits[split][query, _numbered(text, documents, queries), relevance] = None
    among = "their own documents"
    more = "; corpus = 'all' adds those of the other pairs"
    if inputs.dataset.files.corpus == "all":
        for row in trained:
            for text in _documents_of(row):
                _numbered(text, documents, queries)
        among = "the documents of all pairs"
        more = ""
    if NEGATIVES in rows[0]:
        among = f"{among} and negatives"
    # From here in the form of `read`: texts by id.
    judged = {split: list(judgements) for split, judgements in splits.items()}
    query_texts = {name: text for text, name in queries.items()}
    docs: dict[str, Row] = {}
    for text, name in documents.items():
        docs[name] = {"title": None, "text": text}
    tables = retrieval(judged, query_texts, docs, inputs)
    tables["pairs"] = table("IR", "pairs", trained)
    how = (
        f"{count} of {len(asked)} queries are held out, random.Random({HALVES_SEED}).sample of them sorted, half "
        f"of them for validation; they are asked of {among}{more}"
    )
    return DatasetContent(tables=tables, splits=how, notes=tuple(inputs.notes))


def _documents_of(row: Row) -> list[str]:
    """Return a pair's positive, then its negatives."""
    return [row["positive"], *row.get(NEGATIVES, ())]


def _numbered(text: str, documents: dict[str, str], queries: Mapping[str, str]) -> str:
    """Return the id of a document's text; a new id for a new text."""
    # A document with a query's text gets the query's id, so that it does not count as the query's answer.
    return documents.setdefault(text, queries.get(text, f"d{len(documents)}"))


def read_msmarco(inputs: ReaderInputs) -> DatasetContent:
    """Read MS MARCO, whose documents are their texts only in the paper; BEIR's empty titles would add nothing."""
    inputs.need("validation", "the judgements of the dev queries")
    return read(inputs, titles=False)


def read_mldr(inputs: ReaderInputs) -> DatasetContent:
    """Read MLDR: queries with their positive passages, and a corpus for passages that come without text."""
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
    if not wanted.keys() <= docs.keys():
        inputs.need("corpus", "the texts of its positive passages")
        _check_complete(wanted, docs, "document", inputs)
    return DatasetContent(
        tables=retrieval(splits, queries, docs, inputs),
        splits="validation is dev, test is test; the corpus holds the positive documents of both",
        notes=tuple(inputs.notes),
    )
