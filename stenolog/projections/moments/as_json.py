"""A moment as the bytes that are sent: JSON, or the prompt of a program."""

from __future__ import annotations

from stenolog.projections.requests.transport import Transport

from .endpoints import known_endpoint, transport_of
from .moment import Moment


def as_json(moment: Moment) -> str:
    """Return what is sent; of a prompt that was not sent, its body."""
    place = known_endpoint(moment.api)
    transport = transport_of(moment, place) if place else moment.sent or Transport()
    return moment.render(transport).decode()
