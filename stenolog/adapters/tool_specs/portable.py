"""JSON Schemas of answers in a form that every provider takes, and the JSON in an answer's text."""

from __future__ import annotations

import json
from typing import Any

# OpenAI's and Anthropic's pages on structured outputs, November 2026.
STRICT = frozenset(
    {"type", "properties", "required", "additionalProperties", "items", "enum", "const", "anyOf", "$defs"}
    | {"$ref", "description"}
)
"""The keywords of a schema that all providers can hold a model to."""


def portable(schema: Any) -> Any:
    """Return a schema with what all providers take: closed objects, and bounds in descriptions."""
    if isinstance(schema, list):
        return [portable(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    kept, bounds = dict[str, Any](), list[str]()
    for key, value in schema.items():
        match key:
            case "properties" | "$defs":
                kept[key] = {name: portable(each) for name, each in value.items()}
            case "oneOf":
                kept["anyOf"] = portable(value)
            case "enum" | "const" | "default" | "required":
                kept[key] = value
            case _ if key in STRICT:
                kept[key] = portable(value)
            case "discriminator" | "examples":
                pass
            case _:
                bounds.append(f"{key}: {json.dumps(value, ensure_ascii=False)}")
    if bounds:
        kept["description"] = " ".join(filter(None, (kept.get("description"), f"({', '.join(bounds)})")))
    if kept.get("type") == "object" and "properties" in kept:
        kept.setdefault("additionalProperties", False)
    return kept


def is_strict(schema: Any) -> bool:
    """Return whether every provider can hold a model to a schema word by word."""
    if isinstance(schema, list):
        return all(map(is_strict, schema))
    if not isinstance(schema, dict):
        return True
    if not schema.keys() <= STRICT or ("$ref" in schema and len(schema) > 1):
        return False
    if schema.get("type") == "object" and (
        schema.get("additionalProperties") is not False
        or set(schema.get("required", ())) != set(schema.get("properties", {}))
    ):
        return False
    inner = [*schema.get("properties", {}).values(), *schema.get("$defs", {}).values()]
    return all(map(is_strict, [*inner, *schema.get("anyOf", ()), schema.get("items")]))


def unfenced(text: str) -> str:
    """Return a text without the fence of Markdown that some models write around JSON."""
    text = text.strip()
    if text.startswith("```") and text.endswith("```") and "\n" in text:
        return text.partition("\n")[2].removesuffix("```").strip()
    return text
