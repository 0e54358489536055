"""
`fencepost journal`: what happened, and proof of it.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any

import click
import orjson

from fencepost.journal.audit import Head, verify
from fencepost.journal.errors import JournalCorrupt, JournalUnavailable
from fencepost.journal.event import Checkpoint, Commit, Event
from fencepost.journal.reader import FileReader
from fencepost.mailbox import audit, errors, shapes, times
from fencepost.mailbox.caller import utc_now
from fencepost.mailbox.cli import show
from fencepost.mailbox.cli.options import journal_folder, json_flag, root_option, whole
from fencepost.mailbox.store.documents import Document, Erased
from fencepost.mailbox.store.opening import open_index_to_read

_FOLLOW_LOOK_S = 0.05
#: A document on one line for a person; --json prints it whole.
_LINE_MAX = 1_000
_SEQ = re.compile(r"[0-9]{1,18}")
_DIGEST = re.compile(r"[0-9a-fA-F]{64}")


@click.group()
def journal() -> None:
    """
    Prove, replay and explain what happened.

    All of it but `retain` and `rebuild-index` only reads: beside running writers, on a read-only copy, and on a damaged
    journal as far as it is intact.
    """


def _reader(root: str | None) -> FileReader:
    """The journal, and what its index proves to have been there."""
    if root == "":
        raise errors.Usage(why="--root is empty: name a folder, or leave it out")
    reader = FileReader(journal_folder(root))
    with contextlib.suppress(JournalUnavailable), open_index_to_read(reader) as db:
        reader.witness = 0 if db is None else db.execute("SELECT seq FROM fed").fetchone()[0]
    return reader


class _Intact:
    """The batches of a journal as far as it is intact; afterwards, what was met where that ends."""

    def __init__(self, reader: FileReader, after: Checkpoint | None = None) -> None:
        self._reader = reader
        self._after = after
        self.damage: JournalCorrupt | None = None

    def __iter__(self) -> Iterator[Commit]:
        try:
            yield from self._reader.read(self._after)
        except JournalCorrupt as error:
            self.damage = error

    def tell(self, document: dict[str, Any] | None = None) -> int:
        """Print the document if there is one, the damage with it; the exit status."""
        if document is not None:
            show.print_json({**document, "damage": self.damage.details} if self.damage is not None else document)
        elif self.damage is not None:
            click.secho(f"DAMAGED: {show.visible(str(self.damage))}", fg="red", err=True)
        return 0 if self.damage is None else 1


def _event_json(event: Event) -> dict[str, Any]:
    return {
        "seq": event.seq,
        "at": event.at,
        "actor": event.actor,
        "scope": event.scope,
        "stream": event.stream,
        "version": event.version,
        "type": event.type,
        "data": None if event.data is None else orjson.loads(event.data),
    }


def _event_line(event: Event) -> str:
    where = f"{event.scope} {event.stream}"
    return show.visible(f"{event.seq:>8}  {event.at}  {event.type:<22} v{event.version:<3} {where}  by {event.actor}")


def _document_json(document: Document) -> dict[str, Any]:
    return {
        "scope": document.scope,
        "path": document.path,
        "version": document.version,
        "content": audit.as_json(document),
        "erased": isinstance(document.content, Erased),
        "unsupported": document.why,
    }


@contextlib.contextmanager
def _progress(reader: FileReader, *, quiet: bool) -> Iterator[Callable[[Commit], None] | None]:
    """A progress bar over the bytes of a journal, on a terminal and only where there is something to wait for."""
    sizes = {first: os.path.getsize(reader.segments.path(first)) for first in reader.segments.firsts()}
    if quiet or sum(sizes.values()) < 64 << 20 or not sys.stderr.isatty():
        yield None
        return
    with click.progressbar(length=sum(sizes.values()), label="verifying", file=sys.stderr) as bar:

        def each(commit: Commit) -> None:
            bar.update(commit.stop - commit.offset)

        yield each


@journal.command("verify")
@root_option
@json_flag
@click.option("--expect-head", metavar="SEQ:DIGEST", help="A head noted before, which must be part of this history.")
def verify_command(root: str | None, as_json: bool, expect_head: str | None) -> int:
    """
    Prove every frame, the chain between them, and that folding them gives what the index holds.

    Exits 1 and names the first frame that is not as it was written, by file and byte. Somebody who can write all of the
    files can write another history: note `fencepost journal head` elsewhere, and expect it later.
    """
    reader = _reader(root)
    with open_index_to_read(reader) as db, _progress(reader, quiet=as_json) as each:
        verdict = audit.check(reader, db, expect=_head(expect_head), each=each)
    report = verdict.report
    if as_json:
        damage = report.damage
        show.print_json(
            {
                "good": verdict.good,
                "head": {"seq": report.head.seq, "digest": report.head.digest},
                "batches": report.batches,
                "events": report.events,
                "erased": report.erased,
                "documents": verdict.documents,
                "index_seq": verdict.index_seq,
                "only_in_index": verdict.only_in_index,
                "differing": [{"scope": scope, "path": path} for scope, path in verdict.differing],
                "damage": None if damage is None else damage.details,
                "expected_found": report.expected_found,
            }
        )
        return 0 if verdict.good else 1
    click.echo(f"{report.events} events in {report.batches} batches, {report.erased} erased, head {report.head.seq}.")
    if report.damage is not None:
        click.secho(f"DAMAGED: {show.visible(str(report.damage))}", fg="red", err=True)
    elif verdict.index_seq is None:
        click.echo("There is no index; the next command makes one.")
    else:
        click.echo(f"{verdict.documents} documents fold to what the index holds up to event {verdict.index_seq}.")
    for scope, path in verdict.differing:
        click.secho(f"DIFFERS from the index: {show.visible(f'{scope} {path}')}", fg="red", err=True)
    if verdict.only_in_index:
        click.secho(f"DIFFERS: the index holds {verdict.only_in_index} documents more", fg="red", err=True)
    if report.expected_found is False:
        click.secho(f"REWRITTEN: {show.visible(expect_head or '')} is not part of this history", fg="red", err=True)
    if verdict.good:
        click.echo("Everything is as it was written.")
    return 0 if verdict.good else 1


def _head(text: str | None) -> Head | None:
    if text is None:
        return None
    seq, _, digest = text.strip().replace(" ", ":").partition(":")
    if not (_SEQ.fullmatch(seq) and _DIGEST.fullmatch(digest)):
        raise errors.Usage(why=f"--expect-head {text!r} is not SEQ:DIGEST, as `fencepost journal head` prints it")
    return Head(int(seq), digest.lower())


@journal.command()
@root_option
@json_flag
def head(root: str | None, as_json: bool) -> None:
    """Print the last sequence number and its digest, which stand for all of the history before them."""
    report = verify(_reader(root))
    if report.damage is not None:
        raise report.damage
    if as_json:
        show.print_json({"seq": report.head.seq, "digest": report.head.digest})
    else:
        click.echo(f"{report.head.seq}:{report.head.digest}")


@journal.command()
@root_option
@json_flag
@click.option("--after", metavar="SEQ", help="Begin behind this event.")
@click.option("--limit", metavar="N", default="50", show_default=True, help="How many at most.")
def log(root: str | None, as_json: bool, after: str | None, limit: str) -> int:
    """Print events in order: the last ones, or with --after the next ones."""
    count = shapes.whole_number(whole(limit, "limit") or 0, "limit", 1, 1_000_000)
    first = _seq(after, "after")
    intact = _Intact(_reader(root))
    events = (event for commit in intact for event in commit.events)
    if first is None:
        found: Sequence[Event] = deque(events, maxlen=count)
    else:
        found = [event for event, _ in zip((each for each in events if each.seq > first), range(count), strict=False)]
    if as_json:
        return intact.tell({"events": [_event_json(event) for event in found]})
    for event in found:
        click.echo(_event_line(event))
    return intact.tell()


def _seq(text: str | None, field: str, least: int = 0) -> int | None:
    number = whole(text, field, least)
    return None if number is None else shapes.whole_number(number, field, least)


@journal.command()
@root_option
@click.option("--after", metavar="SEQ", help="Begin behind this event; with none, with the next one.")
@click.option("-f", "--follow", is_flag=True, help="Go on as events come, until interrupted.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document for each event, on a line of its own.")
@click.option("--seconds", metavar="N", help="Follow for this long.")
def tail(root: str | None, after: str | None, follow: bool, as_json: bool, seconds: str | None) -> int:
    """Print the last ten events, or those behind --after, and with -f those that come."""
    reader = _reader(root)
    first = _seq(after, "after")
    for_s = _seq(seconds, "seconds", 1)
    deadline = None if for_s is None else time.monotonic() + for_s
    place = None
    intact = _Intact(reader)
    last: deque[Event] = deque(maxlen=10 if first is None else None)
    for commit in intact:
        place = commit.end
        last.extend(event for event in commit.events if first is None or event.seq > first)
    _print_events(last, as_json=as_json)
    while follow and intact.damage is None and (deadline is None or time.monotonic() < deadline):
        intact = _Intact(reader, place)
        for commit in intact:
            place = commit.end
            _print_events([event for event in commit.events if event.seq > (first or 0)], as_json=as_json)
        time.sleep(_FOLLOW_LOOK_S)
    return intact.tell()


def _print_events(events: Sequence[Event] | deque[Event], *, as_json: bool) -> None:
    for event in events:
        if as_json:
            show.print_json(_event_json(event))
        else:
            click.echo(_event_line(event))
    sys.stdout.flush()


@journal.command()
@root_option
@json_flag
@click.option("--until", metavar="SEQ|TIME", help="As of this event or time; now where none is given.")
@click.option("--message-id", metavar="UUID", help="Only this message.")
@click.option("--path", metavar="PATH", help="Or only the document of exactly this path, in whatever scope.")
@click.option("--diff", nargs=2, metavar="A B", help="What changed between two events or times.")
def replay(
    root: str | None,
    as_json: bool,
    until: str | None,
    message_id: str | None,
    path: str | None,
    diff: tuple[str, str] | None,
) -> int:
    """
    Print every document as it stood at some point.

    A time means: up to the first event that has a later time. Events are ordered by sequence, and clocks go back.
    """
    reader = _reader(root)
    if message_id is not None and path is not None:
        raise errors.Usage(why="--message-id and --path were both given: give one of them")
    only = path if message_id is None else f"messages/{shapes.message_id(message_id)}"
    if diff is not None:
        if until is not None:
            raise errors.Usage(why="--until and --diff were both given: give one of them")
        points = [_point(text) for text in diff]
        sides = [_Intact(reader) for _ in points]
        earlier, later = (audit.replay(side, point) for side, point in zip(sides, points, strict=True))
        changes = [each for each in audit.compare(earlier, later) if only in (None, each.stream[1])]
        worse = sides[0] if sides[0].damage is not None else sides[1]
        return worse.tell(_print_changes(changes, as_json=as_json))
    intact = _Intact(reader)
    found = audit.replay(intact, _point(until))
    documents = [found[stream] for stream in sorted(found) if only in (None, stream[1])]
    if as_json:
        return intact.tell({"documents": [_document_json(document) for document in documents]})
    for document in documents:
        body = audit.as_json(document)
        text = (document.why or "(erased)") if body is None else show.compact_json(body)
        click.echo(show.clip(f"{document.scope} {document.path} v{document.version}: {text}", _LINE_MAX))
    return intact.tell()


def _point(text: str | None) -> int | datetime | None:
    if text is None:
        return None
    return int(text) if text.isdecimal() and text.isascii() and len(text) < 19 else times.parse(text, "until")


def _print_changes(changes: Sequence[audit.Change], *, as_json: bool) -> dict[str, Any] | None:
    """The changes as a document, or printed."""
    if as_json:
        rows = [
            {
                "scope": each.stream[0],
                "path": each.stream[1],
                "field": each.field,
                "before": each.before,
                "after": each.after,
            }
            for each in changes
        ]
        return {"changes": rows}
    stream = None
    for each in changes:
        if each.stream != stream:
            stream = each.stream
            click.secho(show.visible(" ".join(stream)), bold=True)
        click.echo(f"  {_change_line(each)}")
    return None


def _change_line(change: audit.Change) -> str:
    before, after = (show.clip(show.compact_json(value), 120) for value in (change.before, change.after))
    return f"{change.field}: {before} -> {after}"


@journal.command()
@root_option
@json_flag
@click.argument("document")
@click.option("--at", metavar="TIME", help="As it was at this time; as it is now where none is given.")
@click.option("--scope", help="For a path that stands in several scopes: in which.")
def explain(root: str | None, as_json: bool, document: str, at: str | None, scope: str | None) -> int:
    """
    Tell one message's life, event by event: who, when, what it changed, and what each token is worth now.

    A message is named by its id. Everything else is named by its path within its scope, such as notes/plan.md.

    Due times that came and leases that ran out stand between the events. They are no events: they follow from the
    document and the time.
    """
    now = utc_now() if at is None else times.parse(at, "at")
    intact = _Intact(_reader(root))
    try:
        life = _explained(intact, document, now, scope, None if at is None else now)
    except (errors.UnknownMessage, errors.UnknownDocument):
        if intact.damage is not None:
            raise intact.damage from None  # it may stand behind the damage
        raise
    if as_json:
        return intact.tell(_life_json(life))
    click.secho(show.visible(f"{life.document.scope} {life.document.path}, version {life.document.version}"), bold=True)
    for step in life.steps:
        if step.event is None:
            click.echo(f"{'':>8}  {times.show(step.at)}  ({show.visible(step.note)})")
            continue
        click.echo(_event_line(step.event) + (f"  ({step.note})" if step.note else ""))
        for change in step.changes:
            click.echo(f"{'':>10}{_change_line(change)}")
    if life.fences:
        click.secho(f"What its tokens are worth at {times.show(now)}", bold=True)
    for fence in life.fences:
        click.echo(show.visible(f"  session {fence.session}, occurrence {fence.occurrence}: {fence.answer}"))
    return intact.tell()


def _explained(
    commits: Iterable[Commit], named: str, now: datetime, scope: str | None, stop: datetime | None
) -> audit.Life:
    if scope is None and shapes.is_message_id(named):
        return audit.explain(commits, shapes.message_id(named), now, stop=stop)
    shapes.path(named.removeprefix("/"))  # a stream that is about no document begins with a slash
    return audit.explain_document(commits, named, now, scope=scope, stop=stop)


def _life_json(life: audit.Life) -> dict[str, Any]:
    return {
        "document": _document_json(life.document),
        "steps": [
            {
                "event": None if step.event is None else _event_json(step.event),
                "at": times.show(step.at),
                "note": step.note,
                "changes": [{"field": each.field, "before": each.before, "after": each.after} for each in step.changes],
            }
            for step in life.steps
        ],
        "fences": [
            {
                "session": fence.session,
                "occurrence": fence.occurrence,
                "token": fence.token,
                "answer": fence.answer,
            }
            for fence in life.fences
        ],
    }


@journal.command()
@root_option
@json_flag
def stats(root: str | None, as_json: bool) -> None:
    """Count what is there: segments, bytes, events by kind, documents, and what was cut from torn tails."""
    reader = _reader(root)
    kinds: dict[str, int] = {}
    streams: set[tuple[str, str]] = set()

    def each(commit: Commit) -> None:
        for event in commit.events:
            kinds[event.type] = kinds.get(event.type, 0) + 1
            streams.add((event.scope, event.stream))

    report = verify(reader, each=each)
    paths = [reader.segments.path(first) for first in reader.segments.firsts()]
    torn = os.path.join(reader.segments.folder, "torn")
    found = {
        "store": reader.identity.id,
        "head": {"seq": report.head.seq, "digest": report.head.digest},
        "segments": len(paths),
        "archived_segments": sum(os.path.dirname(path) != reader.segments.folder for path in paths),
        "bytes": sum(os.path.getsize(path) for path in paths),
        "events": report.events,
        "erased": report.erased,
        "documents": len(streams),
        "kinds": dict(sorted(kinds.items())),
        "torn_copies": len(os.listdir(torn)) if os.path.isdir(torn) else 0,
        "damage": None if report.damage is None else report.damage.details,
    }
    if as_json:
        show.print_json(found)
        return
    for title, value in found.items():
        said = value if isinstance(value, str) else show.compact_json(value)
        click.echo(f"{title.replace('_', ' ')}: {show.visible(said)}")


@journal.command()
@root_option
@json_flag
@click.option("--before", metavar="TIME", required=True, help="Move segments whose events are all older.")
@click.option("--archive", metavar="DIR", help="Where to [<root>/archive].")
def retain(root: str | None, as_json: bool, before: str, archive: str | None) -> None:
    """
    Move old sealed segments to an archive, which still verifies and still answers history.

    It drops nothing: every finding of every message stays. Only redaction removes content.
    """
    from fencepost.journal.file import FileJournal
    from fencepost.journal.retention import archive_folder
    from fencepost.journal.retention import retain as move

    reader = _reader(root)
    opened = FileJournal(reader.root)
    with contextlib.closing(opened):
        if archive == "":
            raise errors.Usage(why="--archive is empty: name a folder, or leave it out")
        moved = move(opened, times.parse(before, "before"), archive)
        where = archive_folder(opened, archive)
    if as_json:
        show.print_json({"moved": moved, "archive": where})
    else:
        click.echo(f"Moved {len(moved)} segments to {show.visible(where)}.")


@journal.command("rebuild-index")
@root_option
@json_flag
def rebuild_index(root: str | None, as_json: bool) -> None:
    """Make the index anew from the journal. Nothing depends on it: the journal is the truth."""
    from fencepost.mailbox.store.opening import renew_index

    reader = _reader(root)
    generation, seq = renew_index(reader.root)
    if as_json:
        show.print_json({"generation": generation, "seq": seq})
    else:
        click.echo(f"Made generation {generation} of the index, up to event {seq}.")
