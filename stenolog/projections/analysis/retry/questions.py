"""Questions to a model outside of a run: a recorded call's request, as it was or under a change."""

from __future__ import annotations

import json
from datetime import datetime
from hashlib import sha256
from typing import NamedTuple

from stenolog.domain.events import AssistantMessage, LlmError
from stenolog.projections.requests import Request

from .cases import Case


class ModelQuestion(NamedTuple):
    """A request to ask a model, and the recorded call that it is about.

    `variant` is the change in words; "" if the request is as recorded. Equal requests to a model have the
    same `key`, so their answers are asked for once.
    """

    case: Case
    request: Request
    variant: str
    key: str


class ModelReply(NamedTuple):
    """One answer to a question, the one of this `number` from 1, or the error in its place.

    `micro_usd` is what it cost with all its attempts; None: not known. `time` is that of its end.
    """

    question: ModelQuestion
    number: int
    message: AssistantMessage | None
    error: LlmError | None
    micro_usd: int | None
    time: datetime

    @property
    def is_final(self) -> bool:
        """False if the error says nothing about the request, so the next start asks again."""
        return is_final(self.message or self.error)


class Estimate(NamedTuple):
    """A forecast of what asking takes: the missing `calls` beside those `kept`, and their tokens.

    `micro_usd` is the highest price of the missing calls, and `likely` that with as much output as was
    recorded; None: no price is known. `spent` is what the kept answers have cost. `dearest` is the highest
    price of one call.
    """

    calls: int
    kept: int
    tokens_in: int
    most_tokens_out: int
    micro_usd: int | None
    likely: int | None = None
    spent: int = 0
    dearest: int = 0


# Other errors are those of a provider or of a connection that is down, or of a key.
FINAL = ("context_length", "refused", "invalid_response", "invalid_request")
"""Categories of errors that are an answer to the request: it would fail again."""


def is_final(outcome: AssistantMessage | LlmError | None) -> bool:
    """Return whether an outcome answers its question."""
    return isinstance(outcome, AssistantMessage) or (outcome is not None and outcome.category in FINAL)


def question(case: Case, request: Request, model: str, variant: str = "") -> ModelQuestion:
    """Return the question that this request is for a model of this name."""
    named = json.dumps([model, request.api, request.sha256])
    return ModelQuestion(case, request, variant, sha256(named.encode()).hexdigest())
