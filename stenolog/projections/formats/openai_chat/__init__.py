"""OpenAI's Chat Completions API, which many others speak."""

from __future__ import annotations

from ..base import Format
from .laws import LAWS
from .write import NAME, VERSION, ChatWriter, too_many_tools

FORMAT = Format(NAME, VERSION, writer=ChatWriter, limits=too_many_tools, laws=LAWS)
