"""Requests, built from a log by hand, and the parts that an API of one's own is made of.

`build` returns the request of a lane; an `Api` says how its provider wants it written, `register_api` adds
it, and a `Law` says what the provider refuses. `docs/how-to/extend.md` shows an API of one's own.
"""

from .adapters.queries.token_counters import COUNTERS
from .projections.requests import (
    APIS,
    DEFAULT_API,
    Api,
    LaneId,
    Omission,
    Request,
    RequestPart,
    build,
    every_request,
    lanes,
    register_api,
)
from .projections.requests.apis import written_by
from .projections.requests.apis.body_builder import BodyBuilder, explain_tools, schema, texts, tool_function
from .projections.requests.apis.writer import Writer
from .projections.requests.pipeline.identifiers import CallIds
from .projections.requests.pipeline.prompt import Preamble
from .projections.requests.proofs import Proof, proofs
from .projections.requests.request import Message, Rendered
from .projections.requests.rules import RULES
from .projections.requests.tokens import COUNTERS as ESTIMATES
from .projections.requests.tokens import Counter
from .projections.requests.validation import Violation, validate
from .projections.requests.validation.checks import Law, law

__all__ = [
    "APIS",
    "COUNTERS",
    "DEFAULT_API",
    "ESTIMATES",
    "RULES",
    "Api",
    "BodyBuilder",
    "CallIds",
    "Counter",
    "LaneId",
    "Law",
    "Message",
    "Omission",
    "Preamble",
    "Proof",
    "Rendered",
    "Request",
    "RequestPart",
    "Violation",
    "Writer",
    "build",
    "every_request",
    "explain_tools",
    "lanes",
    "law",
    "proofs",
    "register_api",
    "schema",
    "texts",
    "tool_function",
    "validate",
    "written_by",
]
