"""Qwen Code, with sessions like Gemini CLI's and output like Claude Code's."""

from stenolog.domain.base.registry import Reference
from stenolog.projections.programs import FileFormat, Foreign, Program, RequestSigns, SessionFolder, shows

PROGRAM = Program(
    "qwen-code",
    sessions=(
        FileFormat(
            "qwen-code",
            "a Qwen Code session",
            f"{__name__}.sessions:QWEN_CODE",
            (shows("sessionId", "uuid", "message.parts"),),
        ),
    ),
    foreign=(Foreign("a Qwen Code stream", shows("qwen_code_version", type="system"), is_stream=True),),
    folders=(SessionFolder("", ".qwen", "projects"),),
    executable="qwen",
    variables=("OPENAI_*", "QWEN_*", "DASHSCOPE_*"),
    output=Reference(f"{__name__}.output", "LINES"),
    command=lambda words: None if {"-o", "--output-format"} & {*words} else words,
    requests=RequestSigns("qwen", ("qwencode",)),
)
