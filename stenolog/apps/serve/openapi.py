"""JSON Schemas of the methods, their OpenAPI document, and its page."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from inspect import getdoc
from typing import Any

from pydantic import TypeAdapter
from pydantic.json_schema import models_json_schema

from stenolog._version import __version__
from stenolog.domain.codec import REGISTRY

from .faults import HTTP
from .service import PROTOCOL, Method

TEMPLATE = "#/components/schemas/{model}"
ERROR = {
    "type": "object",
    "required": ["error"],
    "properties": {
        "error": {
            "type": "object",
            "required": ["type", "message"],
            "properties": {
                "type": {"type": "string", "description": "The name of the error's class in Python."},
                "message": {"type": "string", "description": "What was expected, what was found, and where."},
                "expected": {"type": "integer", "description": "Of a version conflict: the position."},
                "found": {"type": "integer", "description": "Of a version conflict: the position."},
            },
        }
    },
}


def schemas(methods: Iterable[Method], template: str = TEMPLATE) -> dict[str, Any]:
    """Return the JSON Schema of every parameter, result and event, by name."""
    listed = [*methods]
    models = {model: None for method in listed for model in (method.params, method.result)}
    _, found = models_json_schema([(model, "validation") for model in models], ref_template=template)
    schemas: dict[str, Any] = dict(found["$defs"])
    for topic, cls in REGISTRY.events.items():
        schema = TypeAdapter(cls).json_schema(ref_template=template)
        schemas |= schema.pop("$defs", {})
        schemas[cls.__name__] = {**schema, "description": f"The fields of {topic}, as they are stored."}
    return dict(sorted(schemas.items()))


def document(methods: Mapping[str, Method]) -> dict[str, Any]:
    """Return the OpenAPI document (3.1)."""
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Stenolog",
            "version": __version__,
            "description": f"Protocol {PROTOCOL}. Each method takes and returns one JSON object.",
        },
        "security": [{"token": []}],
        "paths": {f"/v1/{method.name}": {"post": _operation(method)} for method in methods.values()},
        "components": {
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "schemas": {**schemas(methods.values()), "Error": ERROR},
        },
    }


def _operation(method: Method) -> dict[str, Any]:
    statuses = sorted({str(status) for _, status in HTTP} | {"401", "413", "500"})
    return {
        "operationId": method.name,
        "summary": method.help.partition("\n")[0],
        "requestBody": {"required": True, "content": _json(method.params.__name__)},
        "responses": {
            "200": {"description": getdoc(method.result), "content": _json(method.result.__name__)},
            **{status: {"description": "An error.", "content": _json("Error")} for status in statuses},
        },
    }


def _json(name: str) -> dict[str, Any]:
    return {"application/json": {"schema": {"$ref": TEMPLATE.format(model=name)}}}


HEAD = """<!doctype html><html lang="en"><meta charset="utf-8"><title>Stenolog</title><style>
body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}
h2{font-size:1.1rem;margin:2.5rem 0 .25rem}code,h2,td:first-child{font-family:ui-monospace,monospace}
table{border-collapse:collapse;width:100%;table-layout:fixed;margin:.5rem 0}
th:nth-child(1){width:11rem}th:nth-child(2){width:16rem}
td,th{border-bottom:1px solid #ddd;padding:.25rem .5rem;text-align:left;vertical-align:top}
td{overflow-wrap:anywhere}
@media(prefers-color-scheme:dark){body{background:#111;color:#ddd}a{color:#8bf}td,th{border-color:#444}}
</style>"""


def page(methods: Mapping[str, Method]) -> str:
    """Return the document as a page without scripts."""
    return "".join(_page([*methods.values()], schemas(methods.values())))


def _page(methods: Sequence[Method], found: Mapping[str, Any]) -> Iterator[str]:
    yield f"{HEAD}<h1>Stenolog {__version__}, protocol {PROTOCOL}</h1>"
    yield "<p>Each method is <code>POST /v1/METHOD</code> with a JSON object; fields with ? may be left out. "
    yield 'The same as <a href="/openapi.json">OpenAPI</a>.</p>'
    for method in methods:
        yield f'<h2 id="{method.name}">{method.name}</h2><p>{escape(method.help)}</p>'
        yield from _table("takes", found[method.params.__name__])
        yield from _table("returns", found[method.result.__name__])
    own = {method.params.__name__ for method in methods}
    yield "<h1>Values</h1>"
    for name in sorted(found.keys() - own):
        yield f'<h2 id="{name}">{name}</h2><p>{escape(found[name].get("description", ""))}</p>'
        yield from _table("field", found[name])


def _table(title: str, schema: Mapping[str, Any]) -> Iterator[str]:
    if not (fields := schema.get("properties", {})):
        return
    yield f"<table><tr><th>{title}<th>type<th>meaning</tr>"
    for name, each in fields.items():
        needed = "" if name in schema.get("required", ()) else "?"
        words = escape(each.get("description", ""))
        yield f"<tr><td>{name}{needed}<td>{_linked(type_of(each))}<td>{words}</tr>"
    yield "</table>"


def _linked(words: str) -> str:
    return re.sub(r"\b[A-Z][A-Za-z]+\b(?! object)", r'<a href="#\g<0>">\g<0></a>', escape(words))


def type_of(schema: Mapping[str, Any]) -> str:
    """Return the type of a schema in a few words."""
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    if "anyOf" in schema:
        return " or ".join(type_of(each) for each in schema["anyOf"])
    if "enum" in schema or "const" in schema:
        return " or ".join(f'"{each}"' for each in schema.get("enum", [schema.get("const")]))
    if schema.get("type") == "array":
        return f"list of {type_of(schema.get('items', {}))}"
    if schema.get("format") == "date-time":
        return "time"
    return {"string": "text", "object": "JSON object", "boolean": "true or false"}.get(
        str(schema.get("type", "anything")), str(schema.get("type", "anything"))
    )
