"""The surface of a dsh session: the messages that the model sees, as events add and replace them."""

from __future__ import annotations

from typing import NamedTuple

from stenolog.importers import Json, as_dict


class Node(NamedTuple):
    """A message on the surface: its number in the session, its type, and its position in the log.

    The position is 0 for the system prompt, which is no entry.
    """

    seq: int
    kind: str
    position: int


class ReplacedSpan(NamedTuple):
    """The first and the last number of the nodes that an event replaces."""

    first: int
    last: int


def span_of(operation: Json) -> ReplacedSpan | None:
    """Return the span that an event replaces; None for one that is added at the end."""
    told = as_dict(operation)
    first, last = told.get("startSeq", told.get("start")), told.get("endSeq", told.get("end"))
    if told.get("op") == "replace" and isinstance(first, int) and isinstance(last, int):
        return ReplacedSpan(first, last)
    return None


class Surface:
    """The nodes in order. Replaced nodes are taken out; what replaces them stands in their place."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []

    def replaced(self, span: ReplacedSpan) -> list[Node]:
        """Return the nodes of a span, in the surface's order; empty where an end of it is not there."""
        places = {node.seq: place for place, node in enumerate(self.nodes)}
        first, last = places.get(span.first), places.get(span.last)
        return [] if first is None or last is None else self.nodes[first : last + 1]

    def put(self, node: Node, instead: list[Node]) -> None:
        """Add a node at the end, or in the place of others."""
        if not instead:
            self.nodes.append(node)
            return
        place = self.nodes.index(instead[0])
        self.nodes[place : place + len(instead)] = [node]
