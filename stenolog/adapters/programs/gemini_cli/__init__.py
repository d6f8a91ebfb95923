"""Gemini CLI."""

from stenolog.domain.base.registry import Reference
from stenolog.projections.programs import FileFormat, Foreign, Program, RequestSigns, SessionFolder, shows

PROGRAM = Program(
    "gemini-cli",
    sessions=(
        FileFormat(
            "gemini-cli",
            "a Gemini CLI chat",
            f"{__name__}.sessions:GEMINI_CLI",
            (shows("sessionId", "projectHash"),),
        ),
        FileFormat(
            "gemini-cli-json",
            "a Gemini CLI chat as one document",
            f"{__name__}.sessions:GEMINI_CLI_JSON",
            (shows("sessionId", "projectHash", "messages", whole=True),),
        ),
    ),
    foreign=(
        Foreign("a Gemini CLI stream", shows("session_id", "model", type="init"), is_stream=True),
        Foreign("a Gemini CLI recording", shows("method", "response")),
    ),
    folders=(SessionFolder("", ".gemini", "tmp"),),
    executable="gemini",
    variables=("GEMINI_*", "GOOGLE_*"),
    output=Reference(f"{__name__}.output", "LINES"),
    command=lambda words: None if {"-o", "--output-format"} & {*words} else words,
    requests=RequestSigns("gemini", ("geminicli", "gemini-cli")),
    wrapped=(
        r"\s*<(session_context|hook_context|env)\b",
        r"\s*This is the [\w ]+\. We are setting up the context for our chat\.",
    ),
)
