"""YAML of other programs: one document, limited in size, depth and number."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, BinaryIO

from stenolog.domain.errors import MissingExtraError, UnknownFormatError

from .files import MIB

DEEPEST_YAML = 100
MOST_OF_YAML = 1_000_000
"""Values and brackets of a YAML document."""
LARGEST_YAML = 32 * MIB
LONGEST_NUMBER = 100


def yaml_document(stream: BinaryIO) -> Any:
    """Return a YAML document's value. Raises `MissingExtraError` without PyYAML.

    Raises `UnknownFormatError` if too large or deep, and for an alias: with aliases a small file could be
    endless.
    """
    try:
        import yaml
    except ModuleNotFoundError:
        raise MissingExtraError("yaml", "pyyaml") from None
    content = stream.read(LARGEST_YAML + 1)
    if len(content) > LARGEST_YAML:
        raise UnknownFormatError(f"expected at most {LARGEST_YAML // MIB} MiB of YAML, found more")
    base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

    class Loader(base):  # type: ignore[misc]
        """A loader that leaves long and base 60 numbers as text."""

    def number(loader: Any, node: Any, read: Any) -> Any:
        is_plain = len(node.value) <= LONGEST_NUMBER and ":" not in node.value
        return read(loader, node) if is_plain else node.value

    for kind, read in (("int", base.construct_yaml_int), ("float", base.construct_yaml_float)):
        Loader.add_constructor(f"tag:yaml.org,2002:{kind}", partial(number, read=read))
    try:
        _check_yaml(yaml, yaml.parse(content, Loader=Loader))
        return yaml.load(content, Loader=Loader)
    except yaml.YAMLError as error:
        raise UnknownFormatError(f"expected YAML, found {' '.join(str(error).split()):.200}") from None
    except (ValueError, TypeError, ArithmeticError, RecursionError) as error:
        raise UnknownFormatError(f"expected YAML that JSON can express: {error}") from None


def _check_yaml(yaml: Any, events: Iterator[Any]) -> None:
    """Raise `UnknownFormatError` for YAML that would take much more than its bytes."""
    depth = 0
    for nth, event in enumerate(events):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if isinstance(event, yaml.AliasEvent) or depth > DEEPEST_YAML:
            found = "an alias" if depth <= DEEPEST_YAML else f"more than {DEEPEST_YAML} levels"
            raise UnknownFormatError(f"expected YAML without aliases and deep nesting, found {found}")
        if nth > MOST_OF_YAML:
            raise UnknownFormatError(f"expected YAML of at most {MOST_OF_YAML:,} values, found more")
