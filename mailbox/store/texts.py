"""
Search: every text that can be found, in the file of the index.

`said` holds what messages and turns say and every outcome, `noted` what memory
documents say, one row for each event that says something, by its sequence
number.  Beside each stands an FTS5 table of the pieces of three characters in
the folded text, which only saves looking at most rows: what is found is what
`fencepost.mailbox.matching` says of the text itself.

Nothing here is fed while mail is sent.  A search first takes in what has come
since the last one, from a place in the journal of its own, and never past what
the index has been fed.  An erasure makes the whole file anew.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from itertools import islice
from typing import Final, NamedTuple, TypeAlias

import attrs

from fencepost.journal.errors import JournalUnavailable
from fencepost.journal.event import Checkpoint, Commit, Event
from fencepost.journal.port import Journal
from fencepost.journal.recovery import BEGINNING
from fencepost.mailbox import chat, codec, matching
from fencepost.mailbox.addresses import MESSAGES
from fencepost.mailbox.events import Cancelled, Completed, Sent, Snoozed, TurnAppended, Written
from fencepost.mailbox.times import micros
from fencepost.mailbox.turns import TURNS, conversation_of

TABLES: Final = """
CREATE TABLE searched (seq INTEGER, digest TEXT, segment INTEGER, offset INTEGER);
CREATE TABLE said (seq INTEGER PRIMARY KEY,
    scope TEXT, stream TEXT, version INTEGER, at INTEGER, actor TEXT, text TEXT);
CREATE TABLE noted (seq INTEGER PRIMARY KEY,
    scope TEXT, stream TEXT, version INTEGER, at INTEGER, actor TEXT, text TEXT);
"""
#: The two things that can be searched.
SAID, NOTED = "said", "noted"
#: Made with the first search, so that whoever has an SQLite without FTS5 can do all the rest.
_PIECES: Final = (
    "CREATE VIRTUAL TABLE IF NOT EXISTS {name}_pieces USING fts5"
    " (text, content = '', columnsize = 0, detail = none, tokenize = 'trigram case_sensitive 1')"
)
#: How many characters a piece has; a shorter term cannot be asked for by pieces.
_PIECE: Final = 3
#: So many pieces of a query narrow the search as far as it goes; more only cost.
_PIECES_MAX: Final = 24
#: Batches taken in by one transaction, during which nobody else can feed the index.
_CHUNK: Final = 500
#: How many texts are looked at for a query of short terms alone: a third of a second.  Who asks is told.
SCAN_MAX: Final = 100_000


_Opens: TypeAlias = Callable[[], AbstractContextManager[sqlite3.Connection]]


class Text(NamedTuple):
    """What an event says, where it stands, and when that was, in microseconds since 1970."""

    seq: int
    scope: str
    stream: str
    version: int
    at: int
    actor: str
    text: str


@attrs.frozen
class Sight:
    """
    What whoever asks may be told of.

    Attributes:
        scopes: The messages and memory documents of these scopes.
        conversations: The turns of these conversations; of all where None.
    """

    scopes: frozenset[str]
    conversations: frozenset[str] | None

    def sees(self, text: Text) -> bool:
        """May they be told of that text?"""
        if text.stream != TURNS:
            return text.scope in self.scopes
        talk = conversation_of(text.scope)
        return talk is not None and (self.conversations is None or talk in self.conversations)


@attrs.frozen
class Found:
    """
    Texts that match, newest first.

    Attributes:
        complete: False where there may be older ones that nobody has looked at.
    """

    texts: tuple[Text, ...]
    complete: bool = True


# --- taking in --------------------------------------------------------------------------------------


def catch_up(reading: _Opens, writing: _Opens, journal: Journal) -> None:
    """
    Take in everything that the index has been fed.

    Args:
        reading: Opens one look at the index.
        writing: Opens one change to it.
        journal: Where the texts are.

    Raises:
        JournalCorrupt: Something that the index has been fed is damaged since.
        JournalUnavailable: This SQLite cannot search.
    """
    while True:
        with reading() as db:
            place, stop = _stretch(db)
        if place is not None and place.seq >= stop:
            return
        # The journal is read while nothing of the index is held: whoever erases holds the journal and wants the index.
        commits = _some(journal, place or BEGINNING, stop)
        if place is not None and not commits:
            return  # the index knows more than the journal tells: somebody else has to say what is wrong
        with writing() as db:
            if _stretch(db)[0] == place:  # nobody else has taken them in meanwhile
                _take_in(db, place or BEGINNING, commits)


def _stretch(db: sqlite3.Connection) -> tuple[Checkpoint | None, int]:
    """How far the texts are, None where there are none yet; and how far the index has been fed."""
    there = db.execute("SELECT 1 FROM sqlite_master WHERE name = 'searched'").fetchone()
    row = db.execute("SELECT seq, digest, segment, offset FROM searched").fetchone() if there else None
    stop: int = db.execute("SELECT seq FROM fed").fetchone()[0]
    return None if row is None else Checkpoint(*row), stop


def _some(journal: Journal, place: Checkpoint, stop: int) -> list[Commit]:
    """Some batches behind a place; what stands behind `stop` may be damaged, and is not asked for."""
    commits: list[Commit] = []
    if place.seq < stop:
        for commit in islice(journal.read(place), _CHUNK):
            commits.append(commit)
            if commit.seq >= stop:
                break
    return commits


def _take_in(db: sqlite3.Connection, place: Checkpoint, commits: Sequence[Commit]) -> None:
    _make_pieces(db)
    for commit in commits:
        for event in commit.events:
            _take(db, event)
        place = commit.end
    db.execute("DELETE FROM searched")
    db.execute("INSERT INTO searched VALUES (?, ?, ?, ?)", (place.seq, place.digest, place.segment, place.offset))


def _make_pieces(db: sqlite3.Connection) -> None:
    try:
        for name in (SAID, NOTED):
            db.execute(_PIECES.format(name=name))
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode != sqlite3.SQLITE_ERROR:
            raise
        # Not the index is at fault, so nobody should make it anew.
        why = f"to search needs an SQLite of 3.34 or newer with FTS5 ({error})"
        raise JournalUnavailable(path="the index", why=why) from error


def _take(db: sqlite3.Connection, event: Event) -> None:
    text = said_by(event)
    if text is None:
        return
    name = NOTED if event.type == _WRITTEN else SAID
    at = micros(datetime.fromisoformat(event.at))
    row = (event.seq, event.scope, event.stream, event.version, at, event.actor, text)
    db.execute(f"INSERT INTO {name} VALUES (?, ?, ?, ?, ?, ?, ?)", row)  # noqa: S608 - one of two names
    db.execute(
        f"INSERT INTO {name}_pieces (rowid, text) VALUES (?, ?)",  # noqa: S608 - likewise
        (event.seq, matching.fold(text)),
    )


def said_by(event: Event) -> str | None:
    """What an event says; None where it says nothing, was erased, or is in a form that is not known."""
    if event.data is None or event.type not in _SAYING:
        return None
    try:
        happened = codec.decode(event.type, event.data)
    except codec.UnknownForm:
        return None
    match happened:
        case Sent():
            return happened.letter.body if event.stream.startswith(MESSAGES) else None
        case Completed() | Snoozed() | Cancelled():
            return happened.outcome if event.stream.startswith(MESSAGES) else None
        case TurnAppended():
            return chat.text(happened.messages) if event.stream == TURNS else None
        case Written():
            return happened.content
        case _:
            return None


_WRITTEN: Final = codec.EVENT_NAMES[Written]
_SAYING: Final = {codec.EVENT_NAMES[kind] for kind in (Sent, Completed, Snoozed, Cancelled, TurnAppended, Written)}


# --- questions --------------------------------------------------------------------------------------


def find(db: sqlite3.Connection, name: str, terms: Sequence[str], sight: Sight, limit: int) -> Found:
    """
    The newest texts that match.

    Args:
        db: The index.
        name: `SAID` or `NOTED`.
        terms: Folded terms, every one of which must be there.
        sight: What whoever asks may be told of.
        limit: How many at most.
    """
    found: list[Text] = []
    pieces = _pieces(terms)
    rows = _with_pieces(db, name, pieces) if pieces else _newest(db, name)
    for count, text in enumerate(rows):
        if not pieces and count == SCAN_MAX:
            return Found(tuple(found), complete=False)
        if sight.sees(text) and matching.matches(terms, text.text):
            found.append(text)
            if len(found) == limit:
                break
    return Found(tuple(found))


def find_turns(db: sqlite3.Connection, terms: Sequence[str], sight: Sight, limit: int) -> tuple[Text, ...]:
    """
    The turns that match, by their times: the latest first, then by conversation and number, both from the end.

    However far back they are.  Clocks go back, so every candidate is put in order before the first is looked at.
    """
    pieces = _pieces(terms)
    matching_pieces = " AND seq IN (SELECT rowid FROM said_pieces WHERE said_pieces MATCH ?)" if pieces else ""
    rows = db.execute(
        f"SELECT seq FROM said WHERE stream = ?{matching_pieces}"  # noqa: S608 - nothing of the query is in it
        " ORDER BY at DESC, scope DESC, version DESC",
        (TURNS, *([_quoted(pieces)] if pieces else [])),
    )
    found: list[Text] = []
    for (seq,) in rows:
        text = Text._make(db.execute("SELECT * FROM said WHERE seq = ?", (seq,)).fetchone())
        if sight.sees(text) and matching.matches(terms, text.text):
            found.append(text)
            if len(found) == limit:
                break
    return tuple(found)


def _pieces(terms: Sequence[str]) -> list[str]:
    pieces = (term[place : place + _PIECE] for term in terms for place in range(len(term) - _PIECE + 1))
    return list(islice(dict.fromkeys(pieces), _PIECES_MAX))


#: What search tells of: of memory documents only those that stand, as they stand.
_TOLD: Final = {
    SAID: "said",
    NOTED: "noted JOIN entry ON entry.scope = noted.scope AND path = stream AND entry.version = noted.version",
}


def _with_pieces(db: sqlite3.Connection, name: str, pieces: Sequence[str]) -> Iterator[Text]:
    rows = db.execute(
        f"SELECT {name}.* FROM {name}_pieces CROSS JOIN {_TOLD[name]}"  # noqa: S608 - one of two names
        f" WHERE seq = {name}_pieces.rowid AND {name}_pieces MATCH ? ORDER BY {name}_pieces.rowid DESC",
        (_quoted(pieces),),
    )
    return map(Text._make, rows)


def _quoted(pieces: Sequence[str]) -> str:
    """All of them, as strings, in which nothing is syntax."""
    return " AND ".join('"' + piece.replace('"', '""') + '"' for piece in pieces)


def _newest(db: sqlite3.Connection, name: str) -> Iterator[Text]:
    query = f"SELECT {name}.* FROM {_TOLD[name]} ORDER BY seq DESC"  # noqa: S608 - one of two names
    return map(Text._make, db.execute(query))
