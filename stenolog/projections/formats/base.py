"""A format: all that is known of a provider's API."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from stenolog.domain.errors import CallerError
from stenolog.projections.messages.body_digest import MESSAGES
from stenolog.projections.messages.message import Body, Message, Preamble, Rendered

from .checks import Law
from .endpoint import Endpoint

if TYPE_CHECKING:
    from .caching import CacheRules
    from .reading import MessageReader
    from .streaming import StreamReader
    from .writer import Writer

Limits: TypeAlias = Callable[[Body], Iterator[tuple[str, str]]]
"""Yields what exceeds a provider's limits of number and size in a body: a JSON pointer and what is there."""
Render: TypeAlias = Callable[[Sequence[Message], Preamble, Mapping[str, bytes]], Rendered]


def takes_no_schema(model: str, has_tools: bool) -> bool:
    """Return False: no model is held to a schema."""
    return False


class Format(NamedTuple):
    """A provider's API: how a lane's messages are written as a body, and what the provider refuses.

    Either `render` writes all messages at once, or a `writer` also only the new ones. The messages are in the
    body under the key `messages`. A body beyond the `limits` is not sendable. By the `laws`, `check requests`
    and `check file` judge bodies. `read` loads the reader of foreign messages; without one they are not
    understood. `stream` makes a reader for each answer. `cache` loads the rules of the provider's prompt
    cache. `endpoint` is where its provider is asked. `billed` is what its models usually bill for a hundred
    estimated tokens. `takes_schema`: whether a model of the name, with tools or without, is held to the
    schema in the parameter `output`. `output_limits` are the places in a body, as `key/key`, that limit the
    tokens of its answer.
    """

    name: str
    version: int
    render: Render | None = None
    writer: type[Writer] | None = None
    messages: str = MESSAGES
    limits: Limits | None = None
    laws: tuple[Law, ...] = ()
    read: Callable[[], MessageReader] | None = None
    stream: Callable[[], StreamReader] | None = None
    cache: Callable[[], CacheRules] | None = None
    endpoint: Endpoint | None = None
    billed: int = 100
    takes_schema: Callable[[str, bool], bool] = takes_no_schema
    output_limits: tuple[str, ...] = ()

    def rendered(
        self, messages: Sequence[Message], preamble: Preamble, blobs: Mapping[str, bytes]
    ) -> Rendered:
        """Return the body. Raises `CallerError` for one without messages."""
        if self.render is not None:
            made = self.render(messages, preamble, blobs)
        elif self.writer is not None:
            made = self.writer(preamble, blobs).rendered(messages)
        else:
            raise CallerError(f"the API {self.name}: expected render or writer, found neither")
        if not isinstance(made.body.get(self.messages), list | str):
            raise CallerError(
                f"the API {self.name}: expected its messages under {self.messages!r}, found the keys "
                f"{', '.join(made.body)}: name theirs, Format(…, messages=…)"
            )
        return made
