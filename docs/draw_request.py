"""The picture of a request on top of the README: what a terminal shows of the demo, as SVG."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from io import StringIO

from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

WIDTH = 118
COMMAND = ("request", "demo", "--agent", "coder", "--at", "12")
FORMAT = """\
<svg class="rich-terminal" viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<style>.{unique_id}-matrix {{ font-family: ui-monospace, Menlo, Consolas, monospace;
font-size: {char_height}px; line-height: {line_height}px; font-variant-east-asian: full-width }}
.{unique_id}-title {{ font-size: 18px; font-family: system-ui, sans-serif }}
{styles}</style>
<defs><clipPath id="{unique_id}-clip-terminal"><rect x="0" y="0" width="{terminal_width}"
height="{terminal_height}"/></clipPath>{lines}</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">{matrix}</g>
</g>
</svg>
"""
"""Rich's own form loads a font from another host; this one takes the reader's."""


def request_picture() -> str:
    """Return the picture."""
    with tempfile.TemporaryDirectory() as folder:
        _stenolog(folder, "demo")
        shown = _stenolog(folder, *COMMAND, "--color", "always")
    console = Console(record=True, width=WIDTH, file=StringIO())
    console.print(Text.from_ansi(shown))
    title = f"stenolog {' '.join(COMMAND)}"
    drawn = console.export_svg(title=title, theme=MONOKAI, code_format=FORMAT, unique_id="request")
    return "\n".join(line.rstrip() for line in drawn.splitlines()) + "\n"


def _stenolog(folder: str, *arguments: str) -> str:
    env = {**os.environ, "STENOLOG_DB": f"{folder}/talks.db", "COLUMNS": str(WIDTH)}
    command = [sys.executable, "-m", "stenolog", *arguments]
    return subprocess.run(command, env=env, capture_output=True, text=True, check=True).stdout
