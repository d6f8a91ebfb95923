"""Addresses of APIs, and the names by which programs, cards and telemetry know their providers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple


class Provider(NamedTuple):
    """A provider: its address, and the environment variables for another one and for the key.

    `names` are those on agents' cards, `models` patterns of the names of its models, `spelled` of how a text
    names one, and `maker` is the prefix of all names, left out in lists. `telemetry` is its name in the
    conventions of OpenTelemetry. An SDK may have other ways in: variables that begin with `ways_in`, or a
    login in the directory `profile`.
    """

    names: tuple[str, ...]
    base: str
    base_variables: tuple[str, ...]
    key_variable: str
    key_header: str
    ways_in: tuple[str, ...]
    models: tuple[str, ...] = ()
    spelled: tuple[str, ...] = ()
    maker: str = ""
    telemetry: str = ""
    profile: str = ""


class Sdk(NamedTuple):
    """The call of a provider's SDK in Python, as a program writes it: `CLIENT.CALL(…)`.

    `package` is the SDK's, which stenolog's own `extra` installs. `fields` are passed by name, others as its
    `extra_body`, headers as its `extra_headers`: arguments, or keys of the argument `options`. A stream is
    its `stream_call`, or the call with `stream=True`. If the body has `settings`, all but the messages go
    with the fields in them as its `config`.
    """

    imports: str
    client: str
    call: str
    fields: tuple[str, ...] = ()
    settings: str = ""
    package: str = ""
    extra: str = ""
    stream_call: str = ""
    options: str = ""
    extra_body: str = "extra_body"
    extra_headers: str = "extra_headers"

    @property
    def module(self) -> str:
        """The name of its outermost module."""
        return self.imports.split()[1].partition(".")[0] if self.imports else ""


class Endpoint(NamedTuple):
    """The place of an API at its provider.

    `path` is after the base, with `{model}` in it if the model's name belongs there; `prefix` is between the
    base and the path of a transport. Fields of the body in `remove` are not sent. `paths` are patterns of the
    ends of paths that a tap sees, each with the kind of request: "" for a turn of a conversation,
    "count-tokens", "compaction". The default is `path`.
    """

    provider: Provider
    path: str
    sdk: Sdk
    headers: tuple[tuple[str, str], ...] = ()
    prefix: str = ""
    remove: tuple[str, ...] = ()
    paths: tuple[tuple[str, str], ...] = ()

    @property
    def patterns(self) -> Iterator[tuple[re.Pattern[str], str]]:
        """The paths as compiled patterns, each with its kind."""
        own = re.escape(self.path).replace(re.escape("{model}"), "[^/]+")
        return ((re.compile(f"{path}$"), kind) for path, kind in self.paths or ((own, ""),))
