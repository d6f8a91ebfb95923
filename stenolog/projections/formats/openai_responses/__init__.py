"""OpenAI's Responses API."""

from __future__ import annotations

from ..base import Format
from ..openai_chat.write import too_many_tools
from .laws import LAWS
from .write import NAME, VERSION, ResponsesWriter

FORMAT = Format(NAME, VERSION, writer=ResponsesWriter, messages="input", limits=too_many_tools, laws=LAWS)
