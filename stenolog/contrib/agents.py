"""Coding agents whose sessions are imported, as data loaded before any importer."""

from __future__ import annotations

from stenolog.plugins import FileFormat, Foreign, Program, RequestSigns, SessionFolder, Signature, shows

CLINE_BEGINS = b'[{"role":"user","content":[{"type":"text","text":"<task>'


def file_format(
    name: str,
    title: str,
    importer: str,
    *signatures: Signature,
    precedence: int = 0,
    **names: tuple[str, ...],
) -> FileFormat:
    """Return a format of files, whose importer is in this package."""
    return FileFormat(name, title, f"{__package__}.{importer}", signatures, precedence, **names)


def _of_editor(place: str) -> tuple[SessionFolder, ...]:
    homes = (
        ("XDG_CONFIG_HOME", ".config"),
        ("", "Library/Application Support"),
        ("APPDATA", "AppData/Roaming"),
    )
    return tuple(SessionFolder(home, usual, place) for home, usual in homes)


AMP = Program(
    "amp",
    sessions=(file_format("amp", "an Amp thread", "amp:AMP", shows("id", "messages", whole=True)),),
    folders=(SessionFolder("XDG_DATA_HOME", ".local/share", "amp/threads"),),
    executable="amp",
    variables=("AMP_*",),
)
CLINE = Program(
    "cline",
    sessions=(
        file_format(
            "cline",
            "a Cline task",
            "cline:CLINE",
            shows("sessionId", "origin", "messages", whole=True),
            shows("role", "content", "modelInfo", whole=True),
            Signature(begins=CLINE_BEGINS),
            shows("session_id", "workspace_root", "started_at", whole=True),
            precedence=1,
            beside=("ui_messages.json", "task_metadata.json", "context_history.json", ".compaction.json"),
        ),
    ),
    foreign=(
        Foreign("the screen of a Cline task", shows("ts", "type", type=("say", "ask")), folder="tasks"),
        Foreign("facts on a Cline task", shows("files_in_context", "model_usage"), folder="tasks"),
        Foreign("a compaction of a Cline session", shows("source_message_count", "messages")),
    ),
    folders=(
        SessionFolder("CLINE_DATA_DIR", ".cline/data", "sessions"),
        SessionFolder("CLINE_DATA_DIR", ".cline/data", "tasks"),
        *_of_editor("Code/User/globalStorage/saoudrizwan.claude-dev/tasks"),
    ),
    executable="cline",
    requests=RequestSigns("cline", ("cline",)),
)
CURSOR = Program(
    "cursor",
    sessions=(
        file_format(
            "cursor",
            "Cursor's database of conversations",
            "cursor.database:CURSOR",
            Signature(tables={"cursorDiskKV": frozenset(("key", "value"))}),
            suffixes=(".vscdb",),
        ),
        file_format(
            "cursor-store",
            "the database of a session of Cursor's agent",
            "cursor.store:CURSOR_STORE",
            Signature(tables={"meta": frozenset(("key", "value")), "blobs": frozenset(("id", "data"))}),
        ),
        file_format(
            "cursor-transcript",
            "a Cursor transcript",
            "cursor.transcript:CURSOR_TRANSCRIPT",
            shows("role", "message.content"),
        ),
    ),
    foreign=(
        Foreign("a Cursor CLI stream", shows("session_id", "tool_call", type="tool_call"), is_stream=True),
    ),
    folders=(
        SessionFolder("", ".cursor", "chats"),
        SessionFolder("", ".cursor", "projects"),
        *_of_editor("Cursor/User/globalStorage"),
    ),
    executable="cursor-agent",
    variables=("CURSOR_*",),
)
DROID = Program(
    "droid",
    sessions=(
        file_format(
            "droid",
            "a Droid session",
            "droid:DROID",
            shows("id", type="session_start"),
            shows("message.role", "message.content", type="message"),
            beside=(".settings.json",),
        ),
    ),
    foreign=tuple(
        Foreign("a Droid stream", shows(*keys, type=types), is_stream=True)
        for types, *keys in (
            ("message", "session_id", "role", "text"),
            (("tool_call", "tool_result"), "toolName"),
            (("tool_call", "tool_result"), "toolId"),
            ("completion", "finalText"),
        )
    ),
    folders=(SessionFolder("", ".factory", "sessions"),),
    executable="droid",
    variables=("FACTORY_*",),
)
KIMI = Program(
    "kimi",
    sessions=(
        file_format(
            "kimi",
            "a Kimi session",
            "kimi.files:KIMI",
            shows("protocol_version", type="metadata"),
            shows("timestamp", "message.type", "message.payload"),
            shows(type=("context.append_message", "context.append_loop_event")),
            Signature(folder=("agents/main/wire.jsonl", "wire.jsonl")),
        ),
    ),
    foreign=(
        Foreign(
            "the context of a Kimi CLI session, beside its `wire.jsonl`",
            shows(role=("_system_prompt", "_checkpoint", "_usage")),
            is_stream=True,
        ),
    ),
    folders=(
        SessionFolder("KIMI_CODE_HOME", ".kimi-code", "sessions"),
        SessionFolder("KIMI_SHARE_DIR", ".kimi", "sessions"),
    ),
    executable="kimi",
    variables=("KIMI_*", "MOONSHOT_*"),
    requests=RequestSigns("kimi", ("kimi",)),
)
