"""Requests, built from a log by hand, and the parts that an API of one's own is made of.

`build` returns the request of a lane; a `Format` says how its provider wants it written, `register_api` adds
it, and a `Law` says what the provider refuses. `docs/how-to/extend.md` shows an API of one's own.
"""

from .adapters.conversation.queries.requests.token_counters import COUNTERS
from .projections.formats import FORMATS, register_api, validate
from .projections.formats.base import Format
from .projections.formats.body_builder import BodyBuilder, explain_tools, schema, texts, tool_function
from .projections.formats.caching import Block, CacheRules
from .projections.formats.checks import Law, Violation, law, per_message, stateful
from .projections.formats.endpoint import Endpoint, Provider, Sdk
from .projections.formats.parameters import parameters
from .projections.formats.reading import MessageReader, Reply, Result, Spoken
from .projections.formats.writer import Writer
from .projections.messages.identifiers import CallIds
from .projections.messages.message import Message, Preamble, Rendered
from .projections.messages.rules import RULES
from .projections.messages.sizes import COUNTERS as ESTIMATES
from .projections.messages.sizes import Counter
from .projections.requests import (
    DEFAULT_API,
    LaneId,
    Omission,
    Request,
    RequestPart,
    build,
    every_request,
    lanes,
)
from .projections.requests.proofs import Proof, proofs

__all__ = [
    "COUNTERS",
    "DEFAULT_API",
    "ESTIMATES",
    "FORMATS",
    "RULES",
    "Block",
    "BodyBuilder",
    "CacheRules",
    "CallIds",
    "Counter",
    "Endpoint",
    "Format",
    "LaneId",
    "Law",
    "Message",
    "MessageReader",
    "Omission",
    "Preamble",
    "Proof",
    "Provider",
    "Rendered",
    "Reply",
    "Request",
    "RequestPart",
    "Result",
    "Sdk",
    "Spoken",
    "Violation",
    "Writer",
    "build",
    "every_request",
    "explain_tools",
    "lanes",
    "law",
    "parameters",
    "per_message",
    "proofs",
    "register_api",
    "schema",
    "stateful",
    "texts",
    "tool_function",
    "validate",
]
