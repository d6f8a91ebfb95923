"""Links that open the file of a tool call in an editor.

>>> editor_link("vscode", '{"file_path": "kitchen/oven.py", "offset": 3}', "/home/user/bakery")
'vscode://file/home/user/bakery/kitchen/oven.py:3'
"""

from __future__ import annotations

import re
import string
from collections.abc import Mapping

from .blocks import file_of

EDITORS: Mapping[str, str] = {
    "vscode": "vscode://file{path}:{line}",
    "cursor": "cursor://file{path}:{line}",
    "zed": "zed://file{path}:{line}",
    "idea": "idea://open?file={path}&line={line}",
}
"""The addresses that open a file, by the editors' names."""
_UNESCAPED = f"{string.ascii_letters}{string.digits}/:._~-".encode()
ABSOLUTE = re.compile(r"/|[A-Za-z]:[/\\]")
# Two slashes at the start would be a host, to which some systems send a password.
_PLAIN = re.compile(r"(?!//)(?!.*/\.{0,2}\Z)(?!.*/\.\./)/[^\\\x00-\x1f\x7f-\x9f\ud800-\udfff]+")


def editor_link(editor: str, arguments: str, folder: str = "") -> str:
    """Return the address that opens a call's file; empty if it names none, or no plain absolute path.

    `folder` is where the session worked; `editor` "" is none.
    """
    named = file_of(arguments) if editor else None
    if named is None:
        return ""
    is_absolute = ABSOLUTE.match(named.path)
    path = named.path if is_absolute else f"{folder}/{named.path}" if ABSOLUTE.match(folder) else ""
    if path[1:2] == ":":
        path = "/" + path.replace("\\", "/")
    if not _PLAIN.fullmatch(path):
        return ""
    escaped = "".join(chr(byte) if byte in _UNESCAPED else f"%{byte:02X}" for byte in path.encode())
    return EDITORS[editor].format(path=escaped, line=named.line or 1)
