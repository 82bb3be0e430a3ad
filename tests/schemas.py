"""The JSON Schemas of files; docs/schema holds copies."""

from __future__ import annotations

from inspect import cleandoc
from typing import Any

import msgspec

from jtsolve.averaging.document import PosteriorDocument
from jtsolve.io.graph import GraphDocument
from jtsolve.io.instance import InstanceDocument
from jtsolve.io.ranking import RankingDocument
from jtsolve.io.result import ResultDocument
from jtsolve.models.files.document import (
    MixedDocument,
    MixedMixtureDocument,
    MixtureDocument,
    ModelDocument,
)
from jtsolve.models.files.features import FeaturesDocument


def _schema(*kinds: type[msgspec.Struct]) -> dict[str, Any]:
    """Returns the JSON Schema of a document, or of a union of documents."""
    either, definitions = msgspec.json.schema_components(kinds, ref_template="#/$defs/{name}")
    for definition in definitions.values():
        if "description" in definition:  # a docstring, which is indented before Python 3.13
            definition["description"] = cleandoc(definition["description"])
    top = either[0] if len(either) == 1 else {"anyOf": list(either)}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **top, "$defs": definitions}


GRAPH = _schema(GraphDocument)
INSTANCE = _schema(InstanceDocument)
RANKING = _schema(RankingDocument)
RESULT = _schema(ResultDocument)
POSTERIOR = _schema(PosteriorDocument)
MODEL = _schema(ModelDocument, FeaturesDocument, MixtureDocument, MixedDocument, MixedMixtureDocument)
