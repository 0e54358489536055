"""
The root of every error that fencepost raises, and the journal's own kinds.

Rules for this file: a class is one reason.  It has a stable `code`, its
details as typed fields, and one sentence that tells a person what happened
and what to do next.  Catch `FencepostError` to catch them all; catch a kind
(`Refused`, `BadInput`, `JournalError`) to tell whose turn it is.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import ClassVar


class FencepostError(Exception):
    """
    The root of the hierarchy; never raised itself.

    A subclass lists its details as annotations; they are keyword arguments
    of the constructor, attributes of the instance, and the keys of `details`.
    """

    #: Stable name of the reason, for programs.
    code: ClassVar[str] = "error"
    #: What a person reads; a format string over the fields.
    sentence: ClassVar[str] = "something went wrong"
    #: What the command line exits with.
    exit_status: ClassVar[int] = 1
    #: The code under which the HTTP wire reports it.
    wire_code: ClassVar[str] = "value_error"
    #: The HTTP status under which the wire reports it.
    wire_status: ClassVar[int] = 400

    def __init__(self, **details: object) -> None:
        assert details.keys() == set(self.fields()), (type(self), details)
        super().__init__()
        self.__dict__.update(details)

    @classmethod
    def fields(cls) -> tuple[str, ...]:
        """The names of the details, own and inherited, in order."""
        names: dict[str, None] = {}
        for base in reversed(cls.__mro__):
            for name, kind in inspect.get_annotations(base).items():
                if not str(kind).startswith("ClassVar"):
                    names[name] = None
        return tuple(names)

    @property
    def details(self) -> dict[str, object]:
        """The fields and their values, ready for JSON."""
        return {name: self.__dict__[name] for name in self.fields()}

    def __str__(self) -> str:
        return self.sentence.format(**self.details)

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={value!r}" for name, value in self.details.items())
        return f"{type(self).__name__}({fields})"

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (type(self), self.details)


def _rebuild(kind: type[FencepostError], details: dict[str, object]) -> FencepostError:
    return kind(**details)


def every_error(root: type[FencepostError] = FencepostError) -> Iterator[type[FencepostError]]:
    """Each concrete error class known to this process, the table of the documentation."""
    for kind in root.__subclasses__():
        yield from every_error(kind)
        if "code" in kind.__dict__:
            yield kind


class BadInput(FencepostError):
    """What the caller gave is not well formed.  Nothing was written; correct it and call again."""


class JournalError(FencepostError):
    """The store cannot do what was asked; the command itself may be fine."""

    wire_code = "agent_configuration_error"
    wire_status = 503


class JournalConflict(JournalError):
    """
    A stream moved on since it was read, so the whole batch was refused.

    Differs from a refusal of the mailbox: reading again and deciding again may
    succeed.  The mailbox does that by itself, a bounded number of times.
    """

    code = "journal_conflict"
    sentence = "{scope} {stream} is at version {actual_version}, not {expected_version}: read it again and decide again"
    wire_code = "memory_conflict"
    wire_status = 400
    scope: str
    stream: str
    expected_version: int
    actual_version: int


class JournalBusy(JournalError):
    """Another process holds the store's lock and did not let go within the time allowed."""

    code = "journal_busy"
    sentence = "{path} has been locked for {waited_ms} ms by {holder}: wait for it to finish, then try again"
    path: str
    waited_ms: int
    holder: str


class JournalCorrupt(JournalError):
    """
    The journal is damaged where a crash cannot have damaged it.

    Nothing was cut or rewritten, what is intact can still be read, and every
    write is refused until a person has looked.
    """

    code = "journal_corrupt"
    sentence = (
        "{file} is damaged at byte {offset} ({why}): writing is refused and nothing was changed; "
        "`fencepost journal verify` shows what is intact; restore the file from a copy"
    )
    file: str
    offset: int
    why: str


class JournalUnavailable(JournalError):
    """The operating system refused to read or write the store."""

    code = "journal_unavailable"
    sentence = "{path}: {why}; nothing was acknowledged: mend the cause, then try again"
    path: str
    why: str


class JournalFull(JournalError):
    """There is no room on the disk.  The write failed whole and earlier state is intact."""

    code = "disk_full"
    sentence = "{path}: no room on the disk; nothing was written: free some space, then try again"
    path: str


class OutcomeUnknown(JournalError):
    """
    Nobody confirmed a write, so whether it is there is unknown.

    It is there whole or not at all.
    """

    code = "outcome_unknown"
    sentence = (
        "{path}: the write may or may not have happened ({why}): look with view or list; to repeat a lifecycle "
        "command is safe, and so is to repeat a send that has an idempotency key"
    )
    path: str
    why: str


class SyncFailed(OutcomeUnknown):
    """
    The disk did not confirm a write, so whether it survives is unknown.

    The sync is never tried again.  The next write starts from what the disk
    is known to hold (Rebello et al., "Can Applications Recover from fsync
    Failures?", USENIX ATC 2020).
    """

    sentence = (
        "{path}: the disk did not confirm the write ({why}), so it may or may not be there: "
        "look for it before repeating the command"
    )


class ErasureUnfinished(JournalError):
    """
    An erasure is on record, and not every byte of it could be overwritten yet.

    What was erased is not shown any more.  Whoever uses the store next does the rest, or gets the same error.
    """

    code = "erasure_unfinished"
    sentence = "{path}: {why}; the erasure is on record and not finished: mend the cause, and any further call does it"
    path: str
    why: str


class NotAStore(JournalError):
    """The folder exists and holds something, but not a fencepost store."""

    code = "not_a_store"
    sentence = "{path} is not a fencepost store ({why}): give another --root, or an empty folder"
    path: str
    why: str


class NoStore(NotAStore):
    """There is nothing of that name yet."""

    code = "no_store"
    sentence = "there is no store at {path} yet ({why}): the first send makes one; check --root"


class NewerStore(JournalError):
    """The store was written by a newer fencepost than this one."""

    code = "newer_store"
    sentence = "{path} has store format {found}, and this fencepost knows format {known}: upgrade fencepost"
    wire_code = "memory_format_unsupported"
    path: str
    found: int
    known: int


class ReadOnlyStore(JournalError):
    """This handle was opened for reading, or the file system is mounted read-only."""

    code = "read_only_store"
    sentence = "{path} is open for reading only: open it for writing, or use another --root"
    path: str


class ExportIsReadOnly(ReadOnlyStore):
    """The folder is an export, which is what its manifest says as long as nobody writes to it."""

    code = "export_is_read_only"
    sentence = "{path} is an export and is only read: import it into a store of its own to go on with it"


class ForkedHandle(JournalError):
    """A forked child used the handle that its parent opened."""

    code = "forked_handle"
    sentence = "this store was opened by process {opener}, and process {user} is its child: open the store again there"
    opener: int
    user: int


class ClosedHandle(JournalError):
    """The handle was closed before this call."""

    code = "closed_handle"
    sentence = "{path} was closed: open it again"
    path: str


class CopyDamaged(JournalError):
    """A file of an export is not what its manifest says."""

    code = "export_damaged"
    sentence = "{path} is a damaged export: {file}: {why}; nothing was imported: fetch it again, or export again"
    path: str
    file: str
    why: str


class NotACopy(BadInput):
    """The folder is no export that this version can read."""

    code = "not_an_export"
    sentence = "{path} is no export ({why}): name a folder that `fencepost export` has made"
    path: str
    why: str


class TargetOccupied(BadInput):
    """Something stands where a store or an export was to be made; it is left as it is."""

    code = "target_occupied"
    sentence = (
        "{path} is occupied ({why}), and nothing of it was changed: name an empty one, such as a folder that is not"
        " there yet, or a schema that was made just now"
    )
    path: str
    why: str


class BatchTooLarge(BadInput):
    """A batch has more events or bytes than one frame can carry."""

    code = "batch_too_large"
    sentence = "a batch of {events} events and {size_bytes} bytes is over the limit ({limit}): split it"
    events: int
    size_bytes: int
    limit: str


class NotErasable(BadInput):
    """A batch names an event to erase that is not there, or that is the record of an erasure."""

    code = "not_erasable"
    sentence = "event {seq} cannot be erased ({why}): name events that are there and erase nothing themselves"
    seq: int
    why: str


class MissingExtra(BadInput):
    """What this needs is installed with an extra, and is not there."""

    code = "missing_extra"
    sentence = "this needs what is installed with an extra: pip install 'fencepost[{extra}]'"
    extra: str


# --- a store that a state process keeps -----------------------------------------------------------


class MissingToken(BadInput):
    """A state process is asked without a token, or with one that no header can carry."""

    code = "missing_token"
    sentence = "a state process asks for a token ({why}): set ${variable} to the one that its operator gave you"
    variable: str
    why: str


class MalformedRequest(BadInput):
    """A part of a request is not of the type that belongs there."""

    code = "malformed_request"
    sentence = "{field} is not what belongs there ({why}): send it as the contract says"
    field: str
    why: str


class UnknownMethod(BadInput):
    """A state process is asked something that it does not know."""

    code = "unknown_method"
    sentence = "there is no method {method!r} here: ask for one that is, or upgrade fencepost at the other end"
    method: str


class EventRefused(BadInput):
    """A client of a state process wants to add an event that nobody could read, or where it does not belong."""

    code = "event_refused"
    sentence = "an event {type!r} cannot be added to {stream!r} ({why}): add what the commands of the mailbox make"
    stream: str
    type: str
    why: str


class RequestTooLarge(BadInput):
    """A request is larger than the state process takes."""

    code = "request_too_large"
    sentence = "{url} does not take so large a request: send less at once"
    url: str


class ServerError(JournalError):
    """The state process that keeps the store, as the URL names it."""

    url: str


class Unreachable(ServerError):
    """No connection to the state process can be made, so nothing was sent."""

    code = "unreachable"
    sentence = "{url} cannot be reached ({why}), and nothing was sent: start the state process, or check the URL"
    why: str


class NoAnswer(ServerError):
    """The state process did not answer a question."""

    code = "no_answer"
    sentence = "{url} has not answered ({why}): ask again, or look at what keeps it from answering"
    why: str


class TokenRefused(ServerError):
    """The state process does not know the token."""

    code = "token_refused"
    sentence = "{url} does not know this token, which came from {origin}: ask its operator for one that it knows"
    origin: str


class StrangeAnswer(ServerError):
    """What answers is no state process, or one that does not keep to the contract."""

    code = "strange_answer"
    sentence = "{url} has answered what no state process does ({why}): check the URL, and what stands before it"
    why: str


class OtherWireVersion(ServerError):
    """The state process speaks another version of the wire."""

    code = "other_wire_version"
    sentence = "{url} speaks wire version {found}, and this fencepost {known}: upgrade the older of the two"
    found: str
    known: int


class ServerFailed(ServerError):
    """The state process could not answer, and says no more than that."""

    code = "server_failed"
    sentence = "{url} has failed with status {status}: look at its log, then try again"
    status: int


class ServerRefused(ServerError):
    """The state process refuses, for a reason that this fencepost does not know."""

    code = "server_refused"
    sentence = "{url} refuses with {reason!r}: {said}"
    reason: str
    said: str


class NotCarried(ServerError):
    """The state process is another program, whose contract has no words for this."""

    code = "not_carried"
    sentence = "{url} cannot carry {what}: do without, or let a fencepost keep the store"
    what: str


class NoExpectedVersion(ServerError):
    """The state process cannot write on the condition that nobody was quicker, which every step of a message needs."""

    code = "no_expected_version"
    sentence = (
        "{url} cannot write on condition of a version, so {what} could undo what another has done: "
        "only send and read there"
    )
    what: str
