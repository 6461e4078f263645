"""Croissant: metadata of a runs table, for those who load it as a dataset (`mlcroissant`). Written, not read."""

from __future__ import annotations

import json

from common.files import sha256_bytes

__all__ = ["describe"]

_SCHEMA = "https://schema.org/"
_CONTEXT = {
    "@language": "en", "@vocab": _SCHEMA, "sc": _SCHEMA, "cr": "http://mlcommons.org/croissant/",
    "rai": "http://mlcommons.org/croissant/RAI/", "dct": "http://purl.org/dc/terms/", "conformsTo": "dct:conformsTo",
    "citeAs": "cr:citeAs", "column": "cr:column", "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"}, "examples": {"@id": "cr:examples", "@type": "@json"},
    "extract": "cr:extract", "field": "cr:field", "fileProperty": "cr:fileProperty", "fileObject": "cr:fileObject",
    "fileSet": "cr:fileSet", "format": "cr:format", "includes": "cr:includes", "isLiveDataset": "cr:isLiveDataset",
    "jsonPath": "cr:jsonPath", "key": "cr:key", "md5": "cr:md5", "parentField": "cr:parentField", "path": "cr:path",
    "recordSet": "cr:recordSet", "references": "cr:references", "regex": "cr:regex", "repeated": "cr:repeated",
    "replace": "cr:replace", "separator": "cr:separator", "source": "cr:source", "subField": "cr:subField",
    "samplingRate": "cr:samplingRate", "equivalentProperty": "cr:equivalentProperty", "transform": "cr:transform",
}  # fmt: skip
"""As the specification of Croissant gives it."""

COLUMNS = {
    "model": ("Text", "name of the pretrained model"),
    "task": ("Text", "SC, TC, QA or IR"),
    "dataset": ("Text", "dataset of fine-tuning and evaluation"),
    "lr": ("Float", "fine-tuning learning rate"),
    "seed": ("Integer", "fine-tuning seed"),
    "validation_score": (
        "Float",
        "score on the validation split in [0, 1], by which the learning rate is chosen",
    ),
    "test_score": ("Float", "score on the test split in [0, 1]"),
    "n_validation": ("Integer", "validation instances"),
    "n_test": ("Integer", "test instances"),
}
"""Data type and meaning of each column of a runs table."""


def describe(table: str, content: bytes, protocol: str) -> str:
    """Return the metadata of a runs table in CSV: `table` is its file's name, `content` its bytes."""
    fields = [
        {
            "@type": "cr:Field", "@id": f"runs/{name}", "name": f"runs/{name}", "description": words,
            "dataType": f"sc:{kind}", "source": {"fileObject": {"@id": table}, "extract": {"column": name}},
        }
        for name, (kind, words) in COLUMNS.items()
    ]  # fmt: skip
    metadata = {
        "@context": _CONTEXT, "@type": "sc:Dataset", "conformsTo": "http://mlcommons.org/croissant/1.0",
        "name": "clm-or-mlm-runs",
        "description": f"Fine-tuning runs of encoders, one per row, scored by the {protocol} protocol of clm-or-mlm.",
        "url": "https://arxiv.org/abs/2507.00994", "version": "1.0.0",
        "distribution": [
            {
                "@type": "cr:FileObject", "@id": table, "name": table, "contentUrl": table,
                "encodingFormat": "text/csv", "sha256": sha256_bytes(content), "contentSize": f"{len(content)} B",
            }
        ],
        "recordSet": [{
            "@type": "cr:RecordSet", "@id": "runs", "name": "runs", "field": fields,
            "key": [{"@id": f"runs/{name}"} for name in ("model", "dataset", "lr", "seed")],
        }],
    }  # fmt: skip
    return json.dumps(metadata, indent=1) + "\n"
