"""A look at a log that trusts no row: every fault that its chains and its inspection show."""

from __future__ import annotations

from collections.abc import Iterator

from stenolog.adapters.store.contract.inspection import ConversationRow, DamagedRow, Inspection
from stenolog.adapters.store.contract.recorder import LogRecorder
from stenolog.adapters.store.contract.values import LAST
from stenolog.domain import history
from stenolog.domain.entry import GENESIS, digest_of


def faults(recorder: LogRecorder) -> list[str]:
    """Return what is not as it was written, in words that a test can look for."""
    with recorder.inspect() as inspection, inspection.at_one_moment():
        return [*_faults(inspection)]


def _faults(inspection: Inspection) -> Iterator[str]:
    yield from (f"store: {error}" for error in (*inspection.schema_errors(), *inspection.errors()))
    digest, count = GENESIS, 0
    for change in inspection.history():
        if isinstance(change, DamagedRow):
            yield f"history: {change.pointer}"
            break
        digest, count = history.digest_of(digest, change), count + 1
        if (change.digest, change.number) != (digest, count):
            yield f"history {change.number}: digest"
            break
    for held in inspection.conversations():
        yield from (f"{held.name}: {wrong.pointer}" for wrong in held.wrong)
        yield from (f"{held.name} {wrong.position}: outside" for wrong in inspection.outside(held))
        yield from _chain(inspection, held)
    yield from (f"blob {sha[:4]}" for sha, is_whole in inspection.blobs() if not is_whole)


def _chain(inspection: Inspection, held: ConversationRow) -> Iterator[str]:
    digest, position = GENESIS, held.fork
    for segment in inspection.lineage(held.key):
        # A fork may begin before the fork that it is made of.
        if segment.after < held.fork <= segment.upto:
            digest = inspection.digest_at(segment.key, held.fork) or GENESIS
    for record in inspection.records(held.key, held.fork, LAST):
        if isinstance(record, DamagedRow):
            yield f"{held.name} {record.position}: {record.pointer}"
            return
        if record.position != position + 1:
            yield f"{held.name} {position + 1}: gap"
            return
        if digest_of(digest, record) != record.digest:
            yield f"{held.name} {record.position}: digest"
            return
        position, digest = record.position, record.digest
