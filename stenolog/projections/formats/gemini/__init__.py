"""Gemini's `generateContent`."""

from __future__ import annotations

from ..base import Format
from .laws import LAWS
from .write import NAME, VERSION, GeminiWriter

FORMAT = Format(NAME, VERSION, writer=GeminiWriter, messages="contents", laws=LAWS)
