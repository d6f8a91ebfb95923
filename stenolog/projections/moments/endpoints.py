"""The address that each provider's API is asked at, and how a request carries its key."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from stenolog.domain.errors import CallerError
from stenolog.projections.requests.transport import Transport

from .moment import Moment


class Endpoint(NamedTuple):
    """The place of an API: environment variables for its base and its key, and the headers that it wants.

    `path` stands behind the base, with `{model}` in it where the model's name belongs there; `prefix` stands
    between the base and the path of a transport, which says less of it.
    """

    base_variable: str
    base: str
    path: str
    key_variable: str
    key_header: str
    headers: Mapping[str, str] = MappingProxyType({})
    prefix: str = ""
    remove: tuple[str, ...] = ()


_OPENAI = ("OPENAI_BASE_URL", "https://api.openai.com/v1")
_BEARER = ("OPENAI_API_KEY", "authorization: Bearer ")
ENDPOINTS: Mapping[str, Endpoint] = MappingProxyType(
    {
        "openai-chat": Endpoint(*_OPENAI, "/chat/completions", *_BEARER),
        "openai-responses": Endpoint(*_OPENAI, "/responses", *_BEARER),
        "anthropic": Endpoint(
            "ANTHROPIC_BASE_URL",
            "https://api.anthropic.com",
            "/v1/messages",
            "ANTHROPIC_API_KEY",
            "x-api-key: ",
            MappingProxyType({"anthropic-version": "2023-06-01"}),
        ),
        "gemini": Endpoint(
            "GOOGLE_GEMINI_BASE_URL",
            "https://generativelanguage.googleapis.com",
            "models/{model}:generateContent",
            "GEMINI_API_KEY",
            "x-goog-api-key: ",
            prefix="/v1beta/",
            remove=("model",),
        ),
    }
)
"""The endpoints by the names of the APIs."""


def endpoint_of(moment: Moment, form: str) -> Endpoint:
    """Return the endpoint of a moment's API. Raises `CallerError` where it is not known."""
    try:
        return ENDPOINTS[moment.api]
    except KeyError:
        known = ", ".join(ENDPOINTS)
        raise CallerError(
            f"--as {form} is for a request over HTTP: expected one of the APIs {known}, found {moment.api}"
        ) from None


def path_behind(endpoint: Endpoint, path: str) -> str:
    """Return a path as it stands behind the base of an endpoint.

    That of a recorded program begins with what the base, or the prefix, has already.
    """
    _, _, base = endpoint.base.partition("://")[2].partition("/")
    if base and path.startswith(f"/{base}/"):
        return path.removeprefix(f"/{base}")
    return path if endpoint.prefix and path.startswith("/") else endpoint.prefix + path


def transport_of(moment: Moment, endpoint: Endpoint) -> Transport:
    """Return the transport that it was sent by, else the one that it would be sent by, without a stream."""
    sent = moment.sent
    if sent is not None and sent.method == "POST" and sent.path:
        return sent
    path = endpoint.path.replace("{model}", str(moment.request.body.get("model", "")))
    return Transport("POST", path, remove=endpoint.remove)
