"""Files that the pages load: styles, scripts and the icon, and the styles of pictures that are made here."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from starlette.requests import Request
from starlette.responses import Response

from stenolog.projections import lifecycle_picture
from stenolog.projections.context_curve import plot

TYPES = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
"""The types of the files in the folder `static`, by their endings; others are not served."""
PICTURES = {"context_plot.css": plot.STYLE, "lifecycle.css": lifecycle_picture.STYLE}
"""Styles of pictures, which a picture in a file of its own has within it."""


async def static_file(request: Request) -> Response:
    """Return the file that the path names; 404 for every other name."""
    found = _static_files().get(request.path_params["file"])
    if found is None:
        return Response("404: no such file\n", 404)
    content, type = found
    return Response(content, media_type=type, headers={"Cache-Control": "private, max-age=300"})


@cache
def _static_files() -> dict[str, tuple[bytes, str]]:
    """Return the files with their types, by name."""
    found = {name: (style.encode(), TYPES[".css"]) for name, style in PICTURES.items()}
    for file in files(__package__).joinpath("static").iterdir():
        type = TYPES.get(file.name[file.name.rfind(".") :])
        if type:
            found[file.name] = file.read_bytes(), type
    return found
