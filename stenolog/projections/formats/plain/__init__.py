"""Plain text, for programs that take a prompt."""

from __future__ import annotations

from stenolog.projections.messages.body_digest import PROMPT

from ..base import Format
from .laws import LAWS
from .write import NAME, VERSION, PlainWriter

FORMAT = Format(NAME, VERSION, writer=PlainWriter, messages=PROMPT, laws=LAWS)
