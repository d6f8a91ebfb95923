"""The log as a service for programs in other languages: over HTTP, and over standard input and output.

`application` is a Starlette application, to run or mount anywhere; `serve_stdio` answers JSON-RPC lines, as
`stenolog serve --stdio` does. HTTP needs the extra `serve`.
"""

from .apps.serve import application, serve_stdio

__all__ = ["application", "serve_stdio"]
