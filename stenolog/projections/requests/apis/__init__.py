"""The APIs of providers, a module each: its name and version, and the writer of its bodies."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple, TypeAlias

from stenolog.domain.errors import CallerError
from stenolog.domain.registry import Registry
from stenolog.projections.requests.pipeline.prompt import Preamble
from stenolog.projections.requests.request import Body, Message, Rendered

from ..body_digest import MESSAGES
from ..transport import PROMPT
from . import anthropic, gemini, openai_chat, openai_responses, plain
from .anthropic_parameters import pictures_and_bytes
from .openai_chat import too_many_tools
from .openai_responses import ResponsesWriter
from .writer import Writer

Limits: TypeAlias = Callable[[Body], Iterator[tuple[str, str]]]
"""Yields what exceeds a provider's limits of number and size in a body: a JSON pointer and what is there."""
Render: TypeAlias = Callable[[Sequence[Message], Preamble, Mapping[str, bytes]], Rendered]


class Api(NamedTuple):
    """A provider's API: `render` writes the messages as a body, which has them under the key `messages`.

    An API with a `writer` can also write only the new messages behind those that it has written before. By
    its key messages are hashed once, checked one by one and compared; plain text stands under `prompt`.
    A body beyond the `limits` is not sendable.
    """

    name: str
    version: int
    render: Render
    writer: type[Writer] | None = None
    messages: str = MESSAGES
    limits: Limits | None = None

    def rendered(
        self, messages: Sequence[Message], preamble: Preamble, blobs: Mapping[str, bytes]
    ) -> Rendered:
        """Return the body. Raises `CallerError` for one without messages: it could not be compared."""
        made = self.render(messages, preamble, blobs)
        if not isinstance(made.body.get(self.messages), list | str):
            raise CallerError(
                f"the API {self.name}: expected its messages under {self.messages!r}, found the keys "
                f"{', '.join(made.body)}: name theirs, Api(…, messages=…)"
            )
        return made


def written_by(
    name: str, version: int, writer: type[Writer], messages: str = MESSAGES, limits: Limits | None = None
) -> Api:
    """Return the API of a writer, whose bodies have their messages under this key."""
    return Api(name, version, partial(_written, writer), writer, messages, limits)


def _written(
    writer: type[Writer], messages: Sequence[Message], preamble: Preamble, blobs: Mapping[str, bytes]
) -> Rendered:
    return writer(preamble, blobs).rendered(messages)


APIS: Registry[Api] = Registry("an API")
"""Every API by its name, those that ship with stenolog and those of plugins: see `register_api`."""
for _api in (
    written_by(openai_chat.NAME, openai_chat.VERSION, openai_chat.ChatWriter, limits=too_many_tools),
    written_by(
        openai_responses.NAME, openai_responses.VERSION, ResponsesWriter, "input", limits=too_many_tools
    ),
    written_by(anthropic.NAME, anthropic.VERSION, anthropic.AnthropicWriter, limits=pictures_and_bytes),
    written_by(gemini.NAME, gemini.VERSION, gemini.GeminiWriter, "contents"),
    written_by(plain.NAME, plain.VERSION, plain.PlainWriter, PROMPT),
):
    APIS.add(_api.name, _api)


def api_of(api: str | Api) -> Api:
    """Return an API by its name. Raises `NotRegisteredError` for one that is not known."""
    return api if isinstance(api, Api) else APIS[api]
