"""Gemini CLI."""

from stenolog.projections.programs import FileFormat, Foreign, Program, shows

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
)
