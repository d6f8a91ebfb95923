"""Programs and frameworks whose files are imported, as data loaded before any importer."""

from __future__ import annotations

from stenolog import plugins

from .agents import file_format as _file

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


def _program(*formats: plugins.FileFormat) -> plugins.Program:
    return plugins.Program(formats[0].name, formats)


ADK = _program(
    _file(
        "adk",
        "an ADK session or evaluation set",
        "adk.files:ADK",
        plugins.shows("events", "id"),
        plugins.shows("eval_cases", whole=True),
        plugins.shows("evalCases", whole=True),
        plugins.shows("query", whole=True),
        plugins.shows("data", whole=True),
        *(
            plugins.Signature(tables={"sessions": _ADK_SESSIONS, "events": _ADK_EVENTS | {content}})
            for content in ("event_data", "content")
        ),
    )
)
AI_SDK = _program(
    _file(
        "ai-sdk",
        "UI messages of the AI SDK",
        "ai_sdk.files:AI_SDK",
        plugins.shows("role", "parts", inside=_IN_MESSAGES),
        plugins.shows("role", "toolInvocations", inside=_IN_MESSAGES),
    )
)
ATIF = _program(
    _file("atif", "an ATIF trajectory", "atif.trajectory:ATIF", plugins.shows("schema_version", "steps"))
)
BURR = _program(
    _file(
        "burr",
        "a Burr log",
        "burr:BURR",
        plugins.shows("type", "action", "sequence_id"),
        plugins.shows("type", "action_sequence_id"),
    )
)._replace(folders=(plugins.SessionFolder("", ".burr", ""),))
CHATGPT = _program(
    _file(
        "chatgpt",
        "an export of ChatGPT's data",
        "chatgpt:CHATGPT",
        plugins.shows("mapping", "current_node", whole=True),
    )
)._replace(
    foreign=(
        plugins.Foreign("ratings in an export of ChatGPT's data", plugins.shows("rating", "conversation_id")),
        plugins.Foreign(
            "links in an export of ChatGPT's data", plugins.shows("is_anonymous", "conversation_id")
        ),
    )
)
COPILOT_CLI = _program(
    _file(
        "copilot-cli",
        "a Copilot CLI session",
        "copilot_cli.sessions:COPILOT_CLI",
        plugins.shows("type", "data", "id", "timestamp", "parentId"),
    )
)._replace(
    folders=(plugins.SessionFolder("COPILOT_HOME", ".copilot", "session-state"),),
    executable="copilot",
    requests=plugins.RequestSigns("copilot", ("copilot",)),
    variables=("COPILOT_*", "GH_TOKEN", "GITHUB_TOKEN"),
)
CREWAGENT = _program(
    _file(
        "crewagent",
        "CrewAgent messages",
        "crewagent.export:CREWAGENT",
        *(plugins.shows(mark, inside=_IN_MESSAGES, whole=True) for mark in CREWAGENT_MARKS),
        plugins.Signature(folder=_CREWAGENT_FILES),
    )
)
DEEPSEEK_HARNESS = _program(
    _file(
        "deepseek-harness",
        "a deepseek-harness session",
        "deepseek_harness.files:DEEPSEEK_HARNESS",
        plugins.shows("id", "createdAt", type="session"),
        plugins.shows("type", "seq0", "time0", "data"),
        plugins.shows("type", "seq", "time", "data"),
    ),
    _file(
        "deepseek-harness-db",
        "deepseek-harness's database of sessions",
        "deepseek_harness.files:DATABASE",
        plugins.Signature(tables=_DSH_TABLES),
    ),
)._replace(folders=(plugins.SessionFolder("", ".dsh", "sessions"),))
GOOSE = _program(
    _file(
        "goose",
        "a goose session",
        "goose.files:GOOSE",
        plugins.shows("working_dir", "message_count", "description"),
        plugins.shows("role", "created", "content"),
    ),
    _file(
        "goose-db",
        "goose's database of sessions",
        "goose.files:GOOSE_DB",
        plugins.Signature(tables=_GOOSE_TABLES),
    ),
    _file(
        "goose-json",
        "a goose session as JSON",
        "goose.files:GOOSE_JSON",
        plugins.shows("working_dir", "conversation", whole=True),
    ),
)._replace(
    folders=(plugins.SessionFolder("XDG_DATA_HOME", ".local/share", "goose/sessions"),),
    requests=plugins.RequestSigns("goose", ("goose",)),
)
HAR = _program(
    _file(
        "har",
        "an HTTP archive (HAR)",
        "har:HAR",
        plugins.shows("log.entries", whole=True),
        suffixes=(".har",),
    )
)
HELICONE = _program(
    _file(
        "helicone",
        "calls logged by Helicone",
        "helicone:HELICONE",
        plugins.shows("request_id", "request_created_at", "response_status", inside=("data",)),
    )
)
LITELLM = _program(
    _file(
        "litellm",
        "calls logged by LiteLLM",
        "litellm:LITELLM",
        plugins.shows("call_type", "startTime", inside=("data",)),
        plugins.shows("standard_logging_object", inside=("data",)),
    )
)
INSPECT_AI = _program(
    _file(
        "inspect-ai",
        "a log of inspect_ai",
        "inspect_ai.samples:INSPECT_AI",
        plugins.shows("version", "status", "eval", "eval.task", whole=True),
        plugins.Signature(begins=b"PK\x03\x04"),
        suffixes=(".eval",),
    )
)
LANGGRAPH = _program(
    _file(
        "langgraph",
        "the database of a LangGraph SqliteSaver",
        "langgraph.database:LANGGRAPH",
        plugins.Signature(tables=_LANGGRAPH_TABLES),
    )
)
MAPPING = _program(
    _file(
        "mapping",
        "a file with a mapping beside it",
        "mapping.files:MAPPING",
        plugins.Signature(beside=plugins.MAPPING_SUFFIXES),
        precedence=2,
    )
)
NEUROCREW = _program(
    _file(
        "neurocrew",
        "a NeuroCrew chat",
        "neurocrew.export:NEUROCREW",
        *(plugins.shows(key, name, whole=True) for key in _NEUROCREW for name in ("chat_id", "metadata")),
        *(plugins.shows(name, whole=True) for name in ("role_display_name", "role_name", "agent_name")),
        plugins.shows("role", whole=True, role="agent"),
        plugins.shows("role", "timestamp", whole=True, role="user"),
        plugins.Signature(words=(b"cli_command", b"role_name")),
    )
)
NOSTR = _program(
    _file(
        "nostr",
        "Nostr events",
        "nostr.files:NOSTR",
        plugins.shows(*NOSTR_FIELDS, inside=("history",)),
        plugins.Signature(texts=True, inside=("history",)),
    )
)
OPENAI_AGENTS = _program(
    _file(
        "openai-agents",
        "a session database of the OpenAI Agents SDK",
        "openai_agents:OPENAI_AGENTS",
        plugins.Signature(tables={"": OPENAI_AGENTS_COLUMNS}),
    )
)
OPENCODE = _program(
    _file(
        "opencode",
        "an opencode storage folder or export",
        "opencode.folder:OPENCODE",
        plugins.shows("info", "messages", whole=True),
        plugins.Signature(folder=_OPENCODE_FILES),
    ),
    _file(
        "opencode-db",
        "an opencode database",
        "opencode.database:OPENCODE_DB",
        plugins.Signature(tables=_OPENCODE_TABLES),
    ),
)._replace(
    foreign=(
        plugins.Foreign(
            "a message of an opencode session", plugins.shows("sessionID", "role"), folder="storage"
        ),
        plugins.Foreign(
            "an opencode session without its messages",
            plugins.shows("projectID", "directory"),
            folder="storage",
        ),
        plugins.Foreign(
            "a part of an opencode message", plugins.shows("messageID", "type"), folder="storage"
        ),
        plugins.Foreign(
            "a part of an opencode message",
            plugins.shows("id", "time", "text", type="text"),
            folder="storage",
        ),
    ),
    folders=tuple(
        plugins.SessionFolder("XDG_DATA_HOME", ".local/share", f"opencode/{place}")
        for place in ("storage", "opencode.db")
    ),
    executable="opencode",
    launch=plugins.Reference("stenolog.contrib.opencode.launch", "begin"),
    requests=plugins.RequestSigns("opencode", ("opencode",)),
    variables=("OPENCODE_*", "ANTHROPIC_*", "OPENAI_*", "GEMINI_*", "GOOGLE_*"),
)
OPENHANDS = _program(
    _file(
        "openhands",
        "an OpenHands run or conversation",
        "openhands.files:OPENHANDS",
        plugins.shows("kind", "id", "timestamp", "source", inside=_OPENHANDS),
        plugins.shows("action", "args", inside=_OPENHANDS),
        plugins.shows("observation", "content", inside=_OPENHANDS),
        plugins.shows("instance_id", "history"),
        plugins.Signature(folder=_OPENHANDS_FILES),
    )
)._replace(requests=plugins.RequestSigns("openhands", ("openhands",)))
OTLP = _program(_file("otlp", "spans of OTLP", "otlp.spans:OTLP", plugins.shows("resourceSpans")))
PI = _program(
    _file("pi", "a pi session", "pi.sessions:PI", plugins.shows("id", "cwd", "timestamp", type="session"))
)._replace(
    folders=(plugins.SessionFolder("PI_CODING_AGENT_DIR", ".pi/agent", "sessions"),),
    executable="pi",
    exporter=plugins.Reference("stenolog.contrib.pi.session_file", "TO_PI"),
)
PYDANTIC_AI = _program(
    _file(
        "pydantic-ai",
        "a message history of pydantic-ai",
        "pydantic_ai:PYDANTIC_AI",
        plugins.shows("kind", "parts"),
    )
)
SWE_AGENT = _program(
    _file(
        "swe-agent",
        "a SWE-agent trajectory",
        "swe_agent.files:SWE_AGENT",
        *(
            plugins.shows(name, whole=True)
            for name in ("history", "trajectory", "attempts", "trajectory_format")
        ),
        plugins.shows("role", "content", inside=_IN_MESSAGES, whole=True),
        plugins.shows("extra", inside=_IN_MESSAGES, whole=True),
        plugins.shows("info.mini_version", whole=True),
        plugins.Signature(words=(b"history:", b"role:")),
    )
)
CONVERSATION_MESSAGES = _program(
    _file(
        "conversation-messages",
        "a table conversation_messages",
        "workflow.files:WORKFLOW",
        *(plugins.shows("role", "content", name) for name in WORKFLOW_IDS),
        plugins.Signature(tables={"conversation_messages": frozenset()}),
        plugins.Signature(words=(b"role", b"content")),
        precedence=1,
    )
)
