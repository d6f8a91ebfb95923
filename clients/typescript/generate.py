"""Writes `src/types.ts` and `src/methods.ts`: the service's messages as types, and its methods as functions.

python clients/typescript/generate.py
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from inspect import getdoc
from pathlib import Path
from textwrap import indent, wrap
from typing import Any

import stenolog
from stenolog.apps.serve.http import schemas
from stenolog.apps.serve.service import Method, Service
from stenolog.domain.codec import REGISTRY

SRC = Path(__file__).with_name("src")
WIDTH = 100
HEAD = "// Made by generate.py from the JSON Schemas of `stenolog serve`: change those, not this.\n"
JSON = """
/** A JSON object whose fields this protocol does not say. */
// any: so that the answer of a provider's SDK is one too.
export type JsonObject = { [name: string]: any };
"""
EVENTS = """
/** An event of the log; `kind` tells its fields. */
export type Event =
{stored};

/** An event on its way into the log; `text` stands for parts with that one text. */
export type EventToWrite =
{written};

/** What was erased, or is of a later release: its fields, or its payload as text. */
export interface UnknownEvent {{
  kind: "unknown";
  event: JsonObject | string;
}}
"""
FORMAT = "#/{model}"
PLAIN = {"string": "string", "integer": "number", "number": "number", "boolean": "boolean", "null": "null"}
UNIONS = {"Entry": "Event | UnknownEvent", "NewEvent": "EventToWrite", "SubmitParams": "EventToWrite"}
"""The messages whose `kind` and `event` go together."""
KINDS = {cls.kind: cls for cls in REGISTRY.events.values()}


def files() -> dict[Path, str]:
    """Return the generated files with what they should hold."""
    with stenolog.open(":memory:") as log:
        methods = list(Service(log).methods.values())
    return {SRC / "types.ts": "".join(_types(methods)), SRC / "methods.ts": "".join(_methods(methods))}


def _types(methods: list[Method]) -> Iterator[str]:
    found = schemas(methods, FORMAT)
    events = {cls.__name__: cls for cls in KINDS.values()}
    yield HEAD + JSON
    yield EVENTS.format(
        stored="\n".join(f'  | {{ kind: "{kind}"; event: {cls.__name__} }}' for kind, cls in KINDS.items()),
        written="\n".join(
            f'  | {{ kind: "{kind}"; event: {_written(cls.__name__, found[cls.__name__])} }}'
            for kind, cls in KINDS.items()
        ),
    )
    for name, schema in found.items():
        if name == "JsonValue":
            continue
        told = getdoc(events[name]) if name in events else schema.get("description", "")
        words, _, _ = (told or "").partition("\n\nAttributes:")
        about = _about_fields(events[name]) if name in events else {}
        yield f"\n{_comment(words)}{_declaration(name, schema, about)}"
    yield "\n/** The methods of the service, with what each takes and returns. */\n"
    yield "export interface Methods {\n"
    for method in methods:
        yield f"  {method.name}: {{ params: {method.params.__name__}; result: {method.result.__name__} }};\n"
    yield "}\n"


def _written(name: str, schema: Mapping[str, Any]) -> str:
    return f"{name} & {{ text?: string }}" if "parts" in schema["properties"] else name


def _declaration(name: str, schema: Mapping[str, Any], about: Mapping[str, str]) -> str:
    fields = schema.get("properties", {})
    if not fields:
        return f"export type {name} = Record<string, never>;\n"
    united = ("kind", "event") if name in UNIONS else ()
    # The tag of a union is always there, though it is no required field of the part alone.
    needed = {*schema.get("required", ()), *(each for each, field in fields.items() if "const" in field)}
    lines = "".join(
        indent(_comment(field.get("description", "") or about.get(each, "")), "  ")
        + f"  {each}{'' if each in needed else '?'}: {_type(field)};\n"
        for each, field in fields.items()
        if each not in united
    )
    if united:
        return f"export type {name} = ({UNIONS[name]}) & {{\n{lines}}};\n"
    return f"export interface {name} {{\n{lines}}}\n"


def _type(schema: Mapping[str, Any]) -> str:
    """Return the TypeScript type of a schema."""
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    if "const" in schema:
        return json.dumps(schema["const"])
    if alternatives := schema.get("enum"):
        return _union(json.dumps(each) for each in alternatives)
    if alternatives := schema.get("anyOf") or schema.get("oneOf"):
        return _union(_type(each) for each in alternatives)
    if schema.get("type") == "array":
        if pair := schema.get("prefixItems"):
            return f"[{', '.join(_type(each) for each in pair)}]"
        inner = _type(schema["items"])
        return f"({inner})[]" if " | " in inner else f"{inner}[]"
    if schema.get("type") == "object":
        values = schema.get("additionalProperties")
        inner = _type(values) if isinstance(values, dict) else "JsonValue"
        return "JsonObject" if inner == "JsonValue" else f"Record<string, {inner}>"
    return PLAIN[schema["type"]]


def _union(types: Iterable[str]) -> str:
    return " | ".join(dict.fromkeys(types))


def _about_fields(cls: type) -> dict[str, str]:
    """Return what the docstrings of an event say about its fields."""
    told: dict[str, str] = {}
    for each in cls.__mro__:
        _, _, listed = (getdoc(each) or "").partition("\nAttributes:\n")
        for line in re.sub(r"\n {8,}", " ", listed).splitlines():
            if found := re.fullmatch(r"    (\w+): (.+)", line):
                told.setdefault(found[1], found[2])
    return told


def _comment(text: str) -> str:
    """Return a text of Python's as a comment of TypeScript's."""
    for python, javascript in (("None", "null"), ("True", "true"), ("False", "false")):
        text = re.sub(rf"\b{python}\b", javascript, text)
    lines = [line for part in text.strip().split("\n\n") for line in (*wrap(part, WIDTH - 6), "")][:-1]
    match lines:
        case []:
            return ""
        case [line]:
            return f"/** {line} */\n"
        case _:
            return "/**\n" + "".join(f" * {line}".rstrip() + "\n" for line in lines) + " */\n"


def _methods(methods: list[Method]) -> Iterator[str]:
    methods = [each for each in methods if each.name != "tail"]  # the client has it as an iterator
    named = sorted({each.params.__name__ for each in methods} | {each.result.__name__ for each in methods})
    yield HEAD + "\nimport type {\n  Methods,\n" + "".join(f"  {name},\n" for name in named)
    yield '} from "./types.js";\n\n/** Each method of the service as a function. */\n'
    yield "export abstract class ServiceMethods {\n  /** Call a method by its name. */\n"
    yield '  abstract call<M extends keyof Methods>(method: M, params: Methods[M]["params"]):'
    yield ' Promise<Methods[M]["result"]>;\n'
    for method in methods:
        params, result = method.params.__name__, method.result.__name__
        name = re.sub(r"_(\w)", lambda found: found[1].upper(), method.name)
        default = "" if method.params.model_json_schema().get("required") else " = {}"
        yield "\n" + indent(_comment(method.help), "  ")
        yield f"  {name}(params: {params}{default}): Promise<{result}> {{\n"
        yield f'    return this.call("{method.name}", params);\n  }}\n'
    yield "}\n"


if __name__ == "__main__":
    for path, text in files().items():
        path.write_text(text, "utf-8")
