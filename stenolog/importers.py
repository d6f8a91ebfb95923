"""Importing conversations of other programs, exporting them, and formats of one's own.

`import_file` takes a file of any registered format, recognised by its content; `import_files` takes many, and
`files_in` finds those in a folder. `export_jsonl` writes what another database takes in with the same
digests, `export_openai` the messages of one agent, `write_pack` evidence for readers without the log.
`events_from` takes a list of messages that a program holds. `docs/how-to/extend.md` shows an importer.

For a format of one's own: a `Converter` turns each `Record` into `Step`s, with an `EventWriter`, which knows
what the log has already, and a `SettingsWriter`; a `SessionConverter` has both, for coding agents' sessions,
and a `MessageSession` reads messages in the form of an API. A `PartTable` makes parts of the blocks of a
message, `as_dict`, `as_str` and the like pick fields out of foreign JSON; `openai_user_parts` and the like
read and write content in OpenAI's form, which many share.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from .adapters.importers.conversion.answers import Answer
from .adapters.importers.conversion.converter import (
    Converter,
    Reader,
    RecordConverter,
    SourceConversation,
    entry_converter,
    source_conversation,
)
from .adapters.importers.conversion.event_writer import EventWriter
from .adapters.importers.conversion.settings_writer import SettingsWriter
from .adapters.importers.conversion.steps import (
    Append,
    Branch,
    ExistingLog,
    Step,
    approvals_on,
    merged,
    position_ranges,
)
from .adapters.importers.detection.detect import recognise
from .adapters.importers.detection.folders import SUFFIXES, files_in, json_at, size_of
from .adapters.importers.door.files import SQLITE, dict_row, regular_file, sqlite_database, tables_in
from .adapters.importers.door.json_lines import (
    LONGEST_LINE,
    JsonLinesReader,
    JsonObject,
    Record,
    Skipped,
    ValuePlace,
    csv_rows,
)
from .adapters.importers.door.times import as_time
from .adapters.importers.formats import IMPORTERS, FolderFormat, Importer, LineFormat, mappings_beside
from .adapters.importers.importer import import_conversations, import_file, import_files
from .adapters.importers.intake.report import Imported, LeftOut, Refused, Report
from .adapters.importers.own.jsonl import export_jsonl
from .projections.formats.reading import read_tool
from .projections.messages.json_fields import (
    Blobs,
    Json,
    agent_called,
    arguments,
    as_dict,
    as_int,
    as_list,
    as_str,
    compact_json,
    conversation_name,
    keep_base64,
    keep_data_url,
    key_of,
    micro_dollars,
    object_in,
    title_of,
)

if TYPE_CHECKING:
    from .adapters.conversation.queries.exporters import EXPORTERS, Exporter
    from .adapters.conversation.queries.outputs import offload_large
    from .adapters.importers.conversion.litellm import litellm_answer, litellm_usage
    from .adapters.importers.conversion.message_session import MessageSession
    from .adapters.importers.conversion.part_tables import (
        BlockContext,
        Maker,
        PartTable,
        blocks_in,
        call_maker,
        media_maker,
        media_part,
        reasoning_maker,
        text_maker,
    )
    from .adapters.importers.conversion.session_converter import SessionConverter, text_parts
    from .adapters.importers.door.record_spool import RecordSpool, StreamedRecords
    from .adapters.importers.door.yaml_file import yaml_document
    from .adapters.importers.door.zip_archive import ZIP, zip_members, zip_names
    from .adapters.importers.evidence.pack import PackContents, write_pack
    from .adapters.importers.evidence.signing import read_signer
    from .adapters.importers.openai.export import export_openai
    from .adapters.importers.openai.in_memory import events_from
    from .adapters.importers.own.remainder import restored, with_remainder
    from .adapters.providers.failures import error_category
    from .apps.tap.recording.call_files import RecordedCall, write_calls
    from .projections.formats.gemini.read import answer_parts as gemini_answer_parts
    from .projections.formats.gemini.read import responses as gemini_responses
    from .projections.formats.gemini.read import usage as gemini_usage
    from .projections.formats.gemini.read import user_part as gemini_user_part
    from .projections.formats.openai_chat.content import openai_answer_message, openai_content
    from .projections.formats.openai_chat.read import answer_parts as openai_answer_parts
    from .projections.formats.openai_chat.read import calls_in as openai_calls
    from .projections.formats.openai_chat.read import tool_call as openai_tool_call
    from .projections.formats.openai_chat.read import user_parts as openai_user_parts
    from .projections.formats.openai_responses.read import assistant_parts as openai_item_parts
    from .projections.moments.moment import Moment
    from .projections.moments.session import AgentSession, SessionFile, as_lines

_LATE = {
    "litellm_answer": "adapters.importers.conversion.litellm:litellm_answer",
    "litellm_usage": "adapters.importers.conversion.litellm:litellm_usage",
    "AgentSession": "projections.moments.session:AgentSession",
    "BlockContext": "adapters.importers.conversion.part_tables:BlockContext",
    "EXPORTERS": "adapters.conversation.queries.exporters:EXPORTERS",
    "Exporter": "adapters.conversation.queries.exporters:Exporter",
    "MessageSession": "adapters.importers.conversion.message_session:MessageSession",
    "Maker": "adapters.importers.conversion.part_tables:Maker",
    "Moment": "projections.moments.moment:Moment",
    "RecordedCall": "apps.tap.recording.call_files:RecordedCall",
    "PackContents": "adapters.importers.evidence.pack:PackContents",
    "PartTable": "adapters.importers.conversion.part_tables:PartTable",
    "RecordSpool": "adapters.importers.door.record_spool:RecordSpool",
    "StreamedRecords": "adapters.importers.door.record_spool:StreamedRecords",
    "SessionFile": "projections.moments.session:SessionFile",
    "as_lines": "projections.moments.session:as_lines",
    "SessionConverter": "adapters.importers.conversion.session_converter:SessionConverter",
    "blocks_in": "adapters.importers.conversion.part_tables:blocks_in",
    "call_maker": "adapters.importers.conversion.part_tables:call_maker",
    "error_category": "adapters.providers.failures:error_category",
    "events_from": "adapters.importers.openai.in_memory:events_from",
    "export_openai": "adapters.importers.openai.export:export_openai",
    "gemini_answer_parts": "projections.formats.gemini.read:answer_parts",
    "gemini_responses": "projections.formats.gemini.read:responses",
    "gemini_usage": "projections.formats.gemini.read:usage",
    "gemini_user_part": "projections.formats.gemini.read:user_part",
    "media_maker": "adapters.importers.conversion.part_tables:media_maker",
    "media_part": "adapters.importers.conversion.part_tables:media_part",
    "offload_large": "adapters.conversation.queries.outputs:offload_large",
    "openai_answer_message": "projections.formats.openai_chat.content:openai_answer_message",
    "openai_answer_parts": "projections.formats.openai_chat.read:answer_parts",
    "openai_calls": "projections.formats.openai_chat.read:calls_in",
    "openai_content": "projections.formats.openai_chat.content:openai_content",
    "openai_item_parts": "projections.formats.openai_responses.read:assistant_parts",
    "openai_tool_call": "projections.formats.openai_chat.read:tool_call",
    "openai_user_parts": "projections.formats.openai_chat.read:user_parts",
    "reasoning_maker": "adapters.importers.conversion.part_tables:reasoning_maker",
    "restored": "adapters.importers.own.remainder:restored",
    "read_signer": "adapters.importers.evidence.signing:read_signer",
    "text_maker": "adapters.importers.conversion.part_tables:text_maker",
    "text_parts": "adapters.importers.conversion.session_converter:text_parts",
    "with_remainder": "adapters.importers.own.remainder:with_remainder",
    "write_calls": "apps.tap.recording.call_files:write_calls",
    "write_pack": "adapters.importers.evidence.pack:write_pack",
    "yaml_document": "adapters.importers.door.yaml_file:yaml_document",
    "ZIP": "adapters.importers.door.zip_archive:ZIP",
    "zip_members": "adapters.importers.door.zip_archive:zip_members",
    "zip_names": "adapters.importers.door.zip_archive:zip_names",
}
"""Names that few importers need, and what is imported for them at their first use."""

__all__ = [
    "EXPORTERS",
    "IMPORTERS",
    "LONGEST_LINE",
    "SQLITE",
    "SUFFIXES",
    "ZIP",
    "AgentSession",
    "Answer",
    "Append",
    "Blobs",
    "BlockContext",
    "Branch",
    "Converter",
    "EventWriter",
    "ExistingLog",
    "Exporter",
    "FolderFormat",
    "Imported",
    "Importer",
    "Json",
    "JsonLinesReader",
    "JsonObject",
    "LeftOut",
    "LineFormat",
    "Maker",
    "MessageSession",
    "Moment",
    "PackContents",
    "PartTable",
    "Reader",
    "Record",
    "RecordConverter",
    "RecordSpool",
    "RecordedCall",
    "Refused",
    "Report",
    "SessionConverter",
    "SessionFile",
    "SettingsWriter",
    "Skipped",
    "SourceConversation",
    "Step",
    "StreamedRecords",
    "ValuePlace",
    "agent_called",
    "approvals_on",
    "arguments",
    "as_dict",
    "as_int",
    "as_lines",
    "as_list",
    "as_str",
    "as_time",
    "blocks_in",
    "call_maker",
    "compact_json",
    "conversation_name",
    "csv_rows",
    "dict_row",
    "entry_converter",
    "error_category",
    "events_from",
    "export_jsonl",
    "export_openai",
    "files_in",
    "gemini_answer_parts",
    "gemini_responses",
    "gemini_usage",
    "gemini_user_part",
    "import_conversations",
    "import_file",
    "import_files",
    "json_at",
    "keep_base64",
    "keep_data_url",
    "key_of",
    "litellm_answer",
    "litellm_usage",
    "mappings_beside",
    "media_maker",
    "media_part",
    "merged",
    "micro_dollars",
    "object_in",
    "offload_large",
    "openai_answer_message",
    "openai_answer_parts",
    "openai_calls",
    "openai_content",
    "openai_item_parts",
    "openai_tool_call",
    "openai_user_parts",
    "position_ranges",
    "read_signer",
    "read_tool",
    "reasoning_maker",
    "recognise",
    "regular_file",
    "restored",
    "size_of",
    "source_conversation",
    "sqlite_database",
    "tables_in",
    "text_maker",
    "text_parts",
    "title_of",
    "with_remainder",
    "write_calls",
    "write_pack",
    "yaml_document",
    "zip_members",
    "zip_names",
]


def __getattr__(name: str) -> object:
    if name not in _LATE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, _, attribute = _LATE[name].partition(":")
    return getattr(import_module(f".{module}", __package__), attribute)
