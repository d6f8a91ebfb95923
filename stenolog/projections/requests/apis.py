"""Registration of a provider's API: how its requests are written, and what it refuses."""

from __future__ import annotations

from collections.abc import Iterable

from .validation import LAWS, Check
from .wires import APIS, Api


def register_api(api: Api, checks: Iterable[Check] = ()) -> Api:
    """Register an API by its name: once, where the program begins.

    `checks` are the functions by which `verify` and `doctor` judge its requests. Raises `CallerError` where
    another API has the name.
    """
    APIS.add(api.name, api)
    if api.name not in LAWS:
        LAWS.add(api.name, tuple(checks))
    return api
