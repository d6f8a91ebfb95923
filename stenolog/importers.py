"""Importing conversations of other programs, exporting them, and formats of one's own.

`import_file` takes a file of any registered format, recognised by its content; `import_files` takes many, and
`files_in` finds those in a folder. `export_jsonl` writes what another database takes in with the same
digests, `export_openai` the messages of one agent. `docs/how-to/extend.md` shows an importer of one's own.
"""

from .adapters.importers.converter import (
    Converter,
    Reader,
    SourceConversation,
    entry_converter,
    source_conversation,
)
from .adapters.importers.detect import recognise
from .adapters.importers.event_writer import EventWriter
from .adapters.importers.formats import EXPORTERS, IMPORTERS, Exporter, FolderFormat, Importer, LineFormat
from .adapters.importers.importer import Refused, import_conversations, import_file, import_files
from .adapters.importers.json_lines import JsonLinesReader, Record, Skipped
from .adapters.importers.jsonl import export_jsonl
from .adapters.importers.openai.export import export_openai
from .adapters.importers.report import Imported, Report
from .adapters.importers.walk import SUFFIXES, files_in, size_of

__all__ = [
    "EXPORTERS",
    "IMPORTERS",
    "SUFFIXES",
    "Converter",
    "EventWriter",
    "Exporter",
    "FolderFormat",
    "Imported",
    "Importer",
    "JsonLinesReader",
    "LineFormat",
    "Reader",
    "Record",
    "Refused",
    "Report",
    "Skipped",
    "SourceConversation",
    "entry_converter",
    "export_jsonl",
    "export_openai",
    "files_in",
    "import_conversations",
    "import_file",
    "import_files",
    "recognise",
    "size_of",
    "source_conversation",
]
