"""Anthropic's Messages API."""

from __future__ import annotations

from ..base import Format
from .laws import LAWS
from .parameters import pictures_and_bytes
from .write import NAME, VERSION, AnthropicWriter

FORMAT = Format(NAME, VERSION, writer=AnthropicWriter, limits=pictures_and_bytes, laws=LAWS)
