"""Registration of `contrib` by references: imported only when used.

Each function is an entry point of the group `stenolog.plugins` (see `pyproject.toml`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from stenolog.plugins import CHANNELS, EXPORTERS, PROGRAMS, TABLES, Reference


def _program(name: str, *others: Callable[[], object], file: str = "programs") -> Callable[[], object]:
    value = Reference(f"{__package__}.{file}", name.upper().replace("-", "_"))
    register = partial(PROGRAMS.add_late, name, value)
    return partial(_each, register, *others) if others else register


def _each(*functions: Callable[[], object]) -> None:
    for function in functions:
        function()


_agent = partial(_program, file="agents")


def _exporter(name: str, reference: str) -> Callable[[], None]:
    return partial(EXPORTERS.add_reference, name, f"{__package__}.{reference}")


def _channel(name: str) -> Callable[[], None]:
    return partial(CHANNELS.add_reference, name, f"{__package__}.{name}.service:channel")


adk = _program("adk")
ag_ui = _exporter("ag-ui", "ag_ui:TO_AG_UI")
ai_sdk = _program("ai-sdk")
amp = _agent("amp")
atif = _program("atif", _exporter("atif", "atif.export:TO_ATIF"))
burr = _program("burr")
chatgpt = _program("chatgpt")
cline = _agent("cline")
copilot_cli = _program("copilot-cli")
crewagent = _program("crewagent", _exporter("crewagent", "crewagent.export:TO_CREWAGENT"))
cursor = _agent("cursor")
deepseek_harness = _program("deepseek-harness")
droid = _agent("droid")
goose = _program("goose")
har = _program("har")
helicone = _program("helicone")
inspect_ai = _program("inspect-ai", _exporter("inspect-ai", "inspect_ai.export:TO_INSPECT_AI"))
kimi = _agent("kimi")
langgraph = _program("langgraph")
litellm = _program("litellm")
mapping = _program("mapping")
neurocrew = _program("neurocrew", _exporter("neurocrew", "neurocrew.export:TO_NEUROCREW"))
nostr = _program("nostr", _exporter("nostr", "nostr.outgoing:TO_NOSTR"), _channel("nostr"))
openai_agents = _program("openai-agents")
opencode = _program("opencode")
openhands = _program("openhands")
otlp = _program("otlp", _exporter("otlp", "otlp.export:TO_OTLP"))
pi = _program("pi")
pydantic_ai = _program("pydantic-ai")
swe_agent = _program("swe-agent")
telegram = _channel("telegram")
_table = f"{__package__}.workflow:conversation_messages"
workflow = _program("conversation-messages", partial(TABLES.add_reference, "conversation_messages", _table))
