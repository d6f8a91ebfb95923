"""Programs and frameworks whose files are imported, as data loaded before any importer."""

from __future__ import annotations

from stenolog.plugins import (
    MAPPING_SUFFIXES,
    FileFormat,
    Foreign,
    Program,
    Reference,
    RequestSigns,
    Signature,
    shows,
)

_IN_MESSAGES = ("messages",)
_ADK_SESSIONS = frozenset(("app_name", "user_id", "id", "state", "update_time"))
_ADK_EVENTS = frozenset(("id", "app_name", "user_id", "session_id", "invocation_id", "timestamp"))
OPENAI_AGENTS_COLUMNS = frozenset(("id", "session_id", "message_data", "created_at"))
CREWAGENT_MARKS = (
    *("includeInContext", "partType", "runId", "widget", "toolCalls", "toolCallId"),
    *("toolName", "agentId", "isCollapsed"),
)
_CREWAGENT_FILES = (
    "index.json",
    "*/messages.json",
    "conversations/index.json",
    "conversations/*/messages.json",
)
_DSH_TABLES = {
    "persistence_state": frozenset(("store_id",)),
    "sessions": frozenset(("id", "version", "created_at", "incarnation")),
    "events": frozenset(("session_id", "seq", "type", "time", "data", "surface_op")),
}
_GOOSE_TABLES = {
    "sessions": frozenset(("id", "working_dir", "extension_data")),
    "messages": frozenset(("session_id", "role", "content_json", "created_timestamp")),
}
_LANGGRAPH_TABLES = {
    "checkpoints": frozenset(("thread_id", "checkpoint_ns", "checkpoint_id", "type", "checkpoint")),
    "writes": frozenset[str](),
}
_NEUROCREW = ("conversation", "messages")
NOSTR_FIELDS = ("id", "pubkey", "created_at", "kind", "tags", "content")
_OPENCODE_FILES = tuple(
    f"{storage}{session}message/*/*.json" for storage in ("", "storage/") for session in ("", "session/")
)
_OPENCODE_TABLES = {
    "session": frozenset(("id", "project_id", "directory", "title")),
    "message": frozenset(("id", "session_id", "data")),
    "part": frozenset(("id", "message_id", "data")),
}
WORKFLOW_IDS = ("workflowId", "workflow_id", "workflowid")
_OPENHANDS = ("trajectory", "items", "events")
_OPENHANDS_FILES = tuple(
    f"{folder}{name}" for folder in ("", "events/") for name in ("[0-9]*.json", "event[-_]*.json")
)


def _file(name: str, title: str, importer: str, *signatures: Signature, precedence: int = 0) -> FileFormat:
    """Return a format of files, whose importer is in this package."""
    return FileFormat(name, title, f"{__package__}.{importer}", signatures, precedence)


def _program(*formats: FileFormat) -> Program:
    """Return a program named by the first format of its files."""
    return Program(formats[0].name, formats)


ADK = _program(
    _file(
        "adk",
        "an ADK session or evaluation set",
        "adk.files:ADK",
        shows("events", "id"),
        shows("eval_cases", whole=True),
        shows("evalCases", whole=True),
        shows("query", whole=True),
        shows("data", whole=True),
        *(
            Signature(tables={"sessions": _ADK_SESSIONS, "events": _ADK_EVENTS | {content}})
            for content in ("event_data", "content")
        ),
    )
)
AI_SDK = _program(
    _file(
        "ai-sdk",
        "UI messages of the AI SDK",
        "ai_sdk.files:AI_SDK",
        shows("role", "parts", inside=_IN_MESSAGES),
        shows("role", "toolInvocations", inside=_IN_MESSAGES),
    )
)
ATIF = _program(_file("atif", "an ATIF trajectory", "atif.files:ATIF", shows("schema_version", "steps")))
BURR = _program(
    _file(
        "burr",
        "a Burr log",
        "burr.files:BURR",
        shows("type", "action", "sequence_id"),
        shows("type", "action_sequence_id"),
    )
)
COPILOT_CLI = _program(
    _file(
        "copilot-cli",
        "a Copilot CLI session",
        "copilot_cli.sessions:COPILOT_CLI",
        shows("type", "data", "id", "timestamp", "parentId"),
    )
)._replace(
    executable="copilot",
    requests=RequestSigns("copilot", ("copilot",)),
    variables=("COPILOT_*", "GH_TOKEN", "GITHUB_TOKEN"),
)
CREWAGENT = _program(
    _file(
        "crewagent",
        "CrewAgent messages",
        "crewagent.export:CREWAGENT",
        *(shows(mark, inside=_IN_MESSAGES, whole=True) for mark in CREWAGENT_MARKS),
        Signature(folder=_CREWAGENT_FILES),
    )
)
DEEPSEEK_HARNESS = _program(
    _file(
        "deepseek-harness",
        "a deepseek-harness session",
        "deepseek_harness.files:DEEPSEEK_HARNESS",
        shows("id", "createdAt", type="session"),
        shows("type", "seq0", "time0", "data"),
        shows("type", "seq", "time", "data"),
    ),
    _file(
        "deepseek-harness-db",
        "deepseek-harness's database of sessions",
        "deepseek_harness.files:DATABASE",
        Signature(tables=_DSH_TABLES),
    ),
)
GOOSE = _program(
    _file(
        "goose",
        "a goose session",
        "goose.files:GOOSE",
        shows("working_dir", "message_count", "description"),
        shows("role", "created", "content"),
    ),
    _file(
        "goose-db", "goose's database of sessions", "goose.files:GOOSE_DB", Signature(tables=_GOOSE_TABLES)
    ),
    _file(
        "goose-json",
        "a goose session as JSON",
        "goose.files:GOOSE_JSON",
        shows("working_dir", "conversation", whole=True),
    ),
)._replace(requests=RequestSigns("goose", ("goose",)))
LANGGRAPH = _program(
    _file(
        "langgraph",
        "the database of a LangGraph SqliteSaver",
        "langgraph.database:LANGGRAPH",
        Signature(tables=_LANGGRAPH_TABLES),
    )
)
MAPPING = _program(
    _file(
        "mapping",
        "a file with a mapping beside it",
        "mapping.files:MAPPING",
        Signature(beside=MAPPING_SUFFIXES),
        precedence=2,
    )
)
NEUROCREW = _program(
    _file(
        "neurocrew",
        "a NeuroCrew chat",
        "neurocrew.export:NEUROCREW",
        *(shows(key, name, whole=True) for key in _NEUROCREW for name in ("chat_id", "metadata")),
        *(shows(name, whole=True) for name in ("role_display_name", "role_name", "agent_name")),
        shows("role", whole=True, role="agent"),
        shows("role", "timestamp", whole=True, role="user"),
        Signature(words=(b"cli_command", b"role_name")),
    )
)
NOSTR = _program(
    _file(
        "nostr",
        "Nostr events",
        "nostr.files:NOSTR",
        shows(*NOSTR_FIELDS, inside=("history",)),
        Signature(texts=True, inside=("history",)),
    )
)
OPENAI_AGENTS = _program(
    _file(
        "openai-agents",
        "a session database of the OpenAI Agents SDK",
        "openai_agents.database:OPENAI_AGENTS",
        Signature(tables={"": OPENAI_AGENTS_COLUMNS}),
    )
)
OPENCODE = _program(
    _file(
        "opencode",
        "an opencode storage folder or export",
        "opencode.folder:OPENCODE",
        shows("info", "messages", whole=True),
        Signature(folder=_OPENCODE_FILES),
    ),
    _file(
        "opencode-db",
        "an opencode database",
        "opencode.database:OPENCODE_DB",
        Signature(tables=_OPENCODE_TABLES),
    ),
)._replace(
    foreign=(
        Foreign("a message of an opencode session", shows("sessionID", "role"), folder="storage"),
        Foreign(
            "an opencode session without its messages", shows("projectID", "directory"), folder="storage"
        ),
        Foreign("a part of an opencode message", shows("messageID", "type"), folder="storage"),
        Foreign("a part of an opencode message", shows("id", "time", "text", type="text"), folder="storage"),
    ),
    executable="opencode",
    launch=Reference("stenolog.contrib.opencode.launch", "begin"),
    requests=RequestSigns("opencode", ("opencode",)),
    variables=("OPENCODE_*", "ANTHROPIC_*", "OPENAI_*", "GEMINI_*", "GOOGLE_*"),
)
OPENHANDS = _program(
    _file(
        "openhands",
        "an OpenHands run or conversation",
        "openhands.files:OPENHANDS",
        shows("kind", "id", "timestamp", "source", inside=_OPENHANDS),
        shows("action", "args", inside=_OPENHANDS),
        shows("observation", "content", inside=_OPENHANDS),
        shows("instance_id", "history"),
        Signature(folder=_OPENHANDS_FILES),
    )
)._replace(requests=RequestSigns("openhands", ("openhands",)))
PI = _program(_file("pi", "a pi session", "pi.sessions:PI", shows("id", "cwd", "timestamp", type="session")))
PYDANTIC_AI = _program(
    _file(
        "pydantic-ai",
        "a message history of pydantic-ai",
        "pydantic_ai.files:PYDANTIC_AI",
        shows("kind", "parts"),
    )
)
SWE_AGENT = _program(
    _file(
        "swe-agent",
        "a SWE-agent trajectory",
        "swe_agent.files:SWE_AGENT",
        *(shows(name, whole=True) for name in ("history", "trajectory", "attempts", "trajectory_format")),
        shows("role", "content", inside=_IN_MESSAGES, whole=True),
        shows("extra", inside=_IN_MESSAGES, whole=True),
        shows("info.mini_version", whole=True),
        Signature(words=(b"history:", b"role:")),
    )
)
CONVERSATION_MESSAGES = _program(
    _file(
        "conversation-messages",
        "a table conversation_messages",
        "workflow.files:WORKFLOW",
        *(shows("role", "content", name) for name in WORKFLOW_IDS),
        Signature(tables={"conversation_messages": frozenset()}),
        Signature(words=(b"role", b"content")),
        precedence=1,
    )
)
