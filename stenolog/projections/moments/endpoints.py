"""The address of each provider's API, and how a request carries its key."""

from __future__ import annotations

from stenolog.domain.errors import CallerError
from stenolog.projections.formats import FORMATS
from stenolog.projections.formats.endpoint import Endpoint
from stenolog.projections.requests.transport import Transport

from .moment import Moment


def known_endpoint(api: str) -> Endpoint | None:
    """Return the endpoint of an API; None for one that is not asked over HTTP."""
    return FORMATS[api].endpoint if api in FORMATS else None


def endpoint_of(moment: Moment, form: str) -> Endpoint:
    """Return the endpoint of a moment's API. Raises `CallerError`."""
    if (endpoint := known_endpoint(moment.api)) is None:
        known = ", ".join(api for api in FORMATS if known_endpoint(api))
        raise CallerError(
            f"--as {form} is for a request over HTTP: expected one of the APIs {known}, found {moment.api}"
        )
    return endpoint


def path_behind(endpoint: Endpoint, path: str) -> str:
    """Return a path relative to the base of an endpoint.

    A recorded path may begin with the base's, or with the prefix.
    """
    _, _, base = endpoint.provider.base.partition("://")[2].partition("/")
    if base and path.startswith(f"/{base}/"):
        return path.removeprefix(f"/{base}")
    return path if endpoint.prefix and path.startswith("/") else endpoint.prefix + path


def transport_of(moment: Moment, endpoint: Endpoint) -> Transport:
    """Return the transport of the request, else the one that it would get, without a stream."""
    sent = moment.sent
    if sent is not None and sent.method == "POST" and sent.path:
        return sent
    path = endpoint.path.replace("{model}", str(moment.request.body.get("model", "")))
    return Transport("POST", path, remove=endpoint.remove)
