"""Base of sessions of Gemini CLI and Qwen Code, which derives from it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from stenolog.adapters.importers.conversion.session_converter import SessionConverter
from stenolog.domain.events import AuthorKind
from stenolog.domain.parts import AssistantPart, TextPart
from stenolog.domain.values import Usage
from stenolog.projections.formats.gemini.read import parts_in, text_in, user_part
from stenolog.projections.formats.reading import Result
from stenolog.projections.messages.json_fields import Blobs, Json


class GeminiSession(SessionConverter):
    """A session whose messages have the contents of Gemini's API."""

    def add_user_message(self, id: str, content: Json, kind: AuthorKind) -> None:
        """Write a person's words, or a program's or schedule's in the user's name."""
        if kind == "person":
            self.name_after(text_in(content))
        blobs: Blobs = {}
        parts = [user_part(part, self.provider, blobs) for part in parts_in(content)]
        self.write_user(id, parts, kind, blobs=blobs)

    def add_answer(
        self, id: str, parts: Sequence[AssistantPart], model: str, usage: Usage | None, message: str = ""
    ) -> None:
        """Write an answer, or a later part of that `message`."""
        self.write_answer(id, self.answer(id, parts, model=model, usage=usage), message)

    def add_result(self, id: str, message: str, response: Result, blobs: Blobs, *, failed: bool) -> None:
        """Write a call's result; a repeated one is skipped."""
        self.write_result(
            id,
            response.call_id,
            response.parts,
            message=message,
            name=response.name,
            blobs=blobs,
            is_repeated=True,
            is_error=failed or response.is_error,
        )

    def summarise(self, id: str, text: str, kept: Iterable[str]) -> None:
        """Write a summary in place of all messages but the `kept` ones."""
        self.write_summary(id, [TextPart(text=text)], kept)
