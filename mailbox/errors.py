"""
Why the mailbox says no.

Rules for this file: `BadInput` is about what was given, and would be said of
any message or document; `Refused` is about the one that it names, as it stands.
Neither writes anything.
"""

from __future__ import annotations

from fencepost.journal.errors import BadInput, FencepostError


class Refused(FencepostError):
    """
    The mailbox is fine and the command is well formed, but it does not fit what stands there.

    Nothing was written.  Differs from `JournalConflict`: repeating the same
    command will be refused again until something else happens.
    """


class RefusedMessage(Refused):
    """What stands there is a message."""

    message_id: str


class RefusedDocument(Refused):
    """What stands there, or does not, is a memory document."""

    scope: str
    path: str


class RefusedPosition(Refused):
    """What stands there, or does not, is a place in the feed of changes."""

    position: int


class RefusedAgent(Refused):
    """What stands there is an agent whose program is fed here."""

    agent: str


class AgentError(FencepostError):
    """
    The program of an agent, or the history that it keeps, is not what a delivery needs.

    The mailbox is fine, and what is in hand stays in hand.
    """

    wire_code = "agent_configuration_error"
    wire_status = 503


class NativeHistoryError(AgentError):
    """It is about the file in which a program keeps the history of a session."""

    path: str


class HomeserverTrouble(FencepostError):
    """
    A Matrix homeserver does not do what is asked of it.

    What was read of it stays read, and what was not is still to be read.
    """

    wire_code = "agent_configuration_error"
    wire_status = 503
    url: str


# --- what was given -----------------------------------------------------------------------------


class Usage(BadInput):
    """The words of a command do not fit its form."""

    code = "usage"
    sentence = "{why}"
    exit_status = 2
    why: str


class BlankText(BadInput):
    """A body or an outcome with nothing in it but white space."""

    code = "blank_text"
    sentence = "{field} is blank: say something"
    field: str


class InvalidText(BadInput):
    """
    Text with a NUL character or a lone surrogate.

    Neither can be stored by every backend nor carried by every client, so both
    are refused everywhere, in every field.
    """

    code = "invalid_text"
    sentence = "{field} has {what} at character {position}: take it out"
    field: str
    what: str
    position: int


class TextTooLong(BadInput):
    """A text over its limit, counted in UTF-8 bytes."""

    code = "text_too_long"
    sentence = "{field} has {size_bytes} bytes, and at most {limit_bytes} are taken: put it in a file and send its path"
    field: str
    size_bytes: int
    limit_bytes: int


class InvalidName(BadInput):
    """An id, scope, path, actor or session that is not well formed."""

    code = "invalid_name"
    sentence = "{field} {value!r} is not well formed: {rule}"
    field: str
    value: str
    rule: str


class InvalidTime(BadInput):
    """A time that is naive, impossible, or outside the years 1970 to 9999 in UTC."""

    code = "invalid_time"
    sentence = "{field} {value!r} {why}: give a time such as 2026-11-30T14:00:00Z"
    field: str
    value: str
    why: str


class InvalidNumber(BadInput):
    """A delay, limit, turn or occurrence that is not a whole number within its range."""

    code = "invalid_number"
    sentence = "{field} {value!r} is not a whole number from {least} to {most}"
    field: str
    value: str
    least: int
    most: int


class InvalidChoice(BadInput):
    """A word that is not one of the words known here."""

    code = "invalid_choice"
    sentence = "{field} {value!r} is none of {choices}"
    field: str
    value: str
    choices: str


class InvalidFleet(BadInput):
    """What should say which agents there are and whom they hear cannot be read, or says what cannot be."""

    code = "invalid_fleet"
    sentence = "{path} is no description of agents: {why}"
    path: str
    why: str


class UnknownAgent(BadInput):
    """An agent that the description of them does not have."""

    code = "unknown_agent"
    sentence = "there is no agent {agent!r}: the agents are {known}"
    agent: str
    known: str


class AccessTokenOfAnother(BadInput):
    """An access token is another Matrix user's than the one that it is for; nothing of it is repeated."""

    code = "access_token_of_another"
    sentence = "the token is {owner}'s, but fleet.toml says {user}: put that of {user} into {origin}, or mend `user`"
    user: str
    owner: str
    origin: str


class UnreadyAgent(BadInput):
    """What the program of an agent needs is not there."""

    code = "unready_agent"
    sentence = "agent {agent} cannot be run: {why}; mend its description, or put there what it names"
    agent: str
    why: str


class UnusableCredentials(BadInput):
    """What should hold the access token of a Matrix user does not; nothing of it is repeated."""

    code = "unusable_credentials"
    sentence = "{origin} {why}: put the access token of the Matrix user there, and nothing else"
    origin: str
    why: str


class UnreadableFile(BadInput):
    """A file that holds a body or an outcome cannot be read."""

    code = "unreadable_file"
    sentence = "{path} cannot be read ({why}): check the path"
    path: str
    why: str


class InvalidDatabaseUrl(BadInput):
    """What should say where a database is does not; it is not repeated, because a password may be in it."""

    code = "invalid_database_url"
    sentence = "the database URL {why}: give one such as postgresql://user@host:5432/database, percent-encoded"
    why: str


class InvalidUrl(BadInput):
    """What should say where a state process is does not; it is not repeated, because a token may be in it."""

    code = "invalid_url"
    sentence = "the URL of the state process {why}: give one such as http://127.0.0.1:6367"
    why: str


class PasswordInUrl(BadInput):
    """A password was given where others can read it: the arguments of a program are no secret."""

    code = "password_in_url"
    sentence = (
        "the database URL has a password in it, and what a program is called with can be read by others: "
        "put it in $FENCEPOST_DATABASE_URL, a password file ($PGPASSFILE) or a service file"
    )


class BothTimes(BadInput):
    """A due time and a delay at once."""

    code = "both_times"
    sentence = "due_at and delay_seconds were both given: give one of them"


class MissingTime(BadInput):
    """A snooze without a time to return at."""

    code = "missing_time"
    sentence = "a snooze needs a time to come back: give due_at or delay_seconds"


class MissingField(BadInput):
    """A field that this command cannot do without."""

    code = "missing_field"
    sentence = "{field} is needed here: {rule}"
    field: str
    rule: str


class UnknownMount(BadInput):
    """The destination is not mounted here, which is not the same as an empty mailbox."""

    code = "unknown_mount"
    sentence = "{target!r} is not mounted here (mounted: {mounted}): mount it or name one of those"
    wire_code = "agent_configuration_error"
    target: str
    mounted: str


class ReadOnlyMount(BadInput):
    """The destination is mounted in a mode that does not allow this."""

    code = "read_only_mount"
    sentence = "{target!r} is mounted {mode}, which does not allow this: mount it read-write"
    wire_code = "agent_configuration_error"
    target: str
    mode: str


class Forbidden(BadInput):
    """The token that was given does not allow this."""

    code = "forbidden"
    sentence = "this token is for {allowed}, and {name!r} was asked for: ask for less, or use a token that is for more"
    wire_code = "forbidden"
    wire_status = 403
    name: str
    allowed: str


class NotThisSession(BadInput):
    """A caller that is bound to a session has named another one."""

    code = "not_this_session"
    sentence = "this caller acts for session {bound!r} and cannot act for {session!r}: leave the session out"
    session: str
    bound: str


class BodyTooLarge(BadInput):
    """The body of a request has more bytes than a state process reads."""

    code = "body_too_large"
    sentence = "the body of the request has more than {limit_bytes} bytes: send less at once"
    wire_status = 413
    limit_bytes: int


class UnusableTokens(BadInput):
    """What should say which tokens a state process takes does not; it is not repeated, because it is a secret."""

    code = "unusable_tokens"
    sentence = "${variable} {why}: set it to one token, or to a table client:NAME=TOKEN,client:NAME=TOKEN"
    variable: str
    why: str


class CannotListen(BadInput):
    """A state process cannot be reached at the address that it was given."""

    code = "cannot_listen"
    sentence = "{address} cannot be listened at ({why}): give another --host or --port"
    address: str
    why: str


class ScopeOccupied(BadInput):
    """A scope is restored where something was written before."""

    code = "scope_occupied"
    sentence = "something was written to {scope} before ({reason}), and nothing of it was changed: name an empty scope"
    wire_code = "memory_conflict"
    scope: str
    reason: str


class ConversationOccupied(BadInput):
    """A conversation is restored where something was said before."""

    code = "conversation_occupied"
    sentence = "something was said in {conversation_id} before ({reason}), and nothing of it was changed: name another"
    wire_code = "agent_conversation_conflict"
    conversation_id: str
    reason: str


class BlankQuery(BadInput):
    """A search for nothing, which is not the same as one that finds nothing."""

    code = "blank_query"
    sentence = "the query has no terms in it: name what to look for"


class InvalidTurn(BadInput):
    """What was given as the messages of a turn, or as its projections, is none."""

    code = "invalid_turn"
    sentence = "{where} is no part of a turn ({why}): give chat messages with a role and content"
    where: str
    why: str


class WhichTurns(BadInput):
    """Turns to erase were named by their numbers and by the last of them, or not at all."""

    code = "which_turns"
    sentence = "either turns or through says which turns are meant: give one of them"


class ReservedPath(BadInput):
    """The mailbox keeps messages and links there; they are changed by its own commands alone."""

    code = "reserved_path"
    sentence = "{path!r} is where the mailbox keeps its own: use its commands, or another path"
    path: str


class InvalidCursor(BadInput):
    """A cursor that was not given by this listing with these arguments."""

    code = "invalid_cursor"
    sentence = (
        "cursor {cursor!r} does not continue this listing: repeat the arguments that it came from, or begin again"
    )
    cursor: str


class ForeignDamaged(BadInput):
    """A store of another program has something that it cannot have, and leaving it out would lose it."""

    code = "import_damaged"
    sentence = "{file}, line {line}: {why}; nothing was imported: mend or remove it there, then import again"
    file: str
    line: int
    why: str


class IdempotencyConflict(BadInput):
    """The idempotency key was used before, for something else."""

    code = "idempotency_conflict"
    sentence = "this idempotency key already sent message {message_id} with other content: use a new key"
    wire_code = "memory_conflict"
    message_id: str


# --- the message as it stands ----------------------------------------------------------------------


class UnknownMessage(RefusedMessage):
    """No message of that id stands in the mounts that were searched."""

    code = "unknown_message"
    sentence = "there is no message {message_id} in {searched}: check the id, and what is mounted"
    wire_code = "memory_document_not_found"
    searched: str


class UnsupportedFormat(RefusedMessage):
    """
    The message has a format or an event that this fencepost does not know.

    It is reported and never rewritten.
    """

    code = "unsupported_format"
    sentence = "message {message_id} is stored in a form this fencepost does not know ({why}): upgrade fencepost"
    wire_code = "memory_format_unsupported"
    why: str


class Erased(RefusedMessage):
    """
    A redaction has erased the message.  Who did what to it when is still on record.

    The idempotency key that it was sent under stays used, because what it sent can no longer be compared.
    """

    code = "erased"
    sentence = "message {message_id} was erased, and what it said is gone: leave it, or send another under a new key"
    wire_code = "memory_document_not_found"


class StaleOccurrence(RefusedMessage):
    """The message was snoozed since the caller read it; what it read is over."""

    code = "stale_occurrence"
    sentence = "message {message_id} is at occurrence {current}, not {given}: view it again before acting on it"
    given: int
    current: int


class Closed(RefusedMessage):
    """The message is done or cancelled."""

    code = "closed"
    sentence = "message {message_id} is {status}: there is nothing left to do on it"
    status: str


class NotRecipient(RefusedMessage):
    """The message is addressed to a conversation that this session neither is nor continues."""

    code = "not_recipient"
    sentence = (
        "message {message_id} is for conversation {conversation!r}, and session {session!r} "
        "is neither that nor its continuation: link the session, or leave it"
    )
    conversation: str
    session: str


class NotDue(RefusedMessage):
    """The message is not due yet.  At its due time exactly, it is."""

    code = "not_due"
    sentence = "message {message_id} is not due before {due_at}: wait until then"
    due_at: str


class NotActionable(RefusedMessage):
    """An informational message holds no work to claim."""

    code = "not_actionable"
    sentence = "message {message_id} is informational and cannot be claimed: acknowledge it with ack"


class ClaimedByAnother(RefusedMessage):
    """Another session holds the lease."""

    code = "claimed"
    sentence = "message {message_id} is claimed by session {owner!r} until {until}: leave it, or come back then"
    owner: str
    until: str


class LeaseExpired(RefusedMessage):
    """The lease ran out and nobody has taken over: claim again, nothing is lost."""

    code = "lease_expired"
    sentence = "no lease on message {message_id} is running for session {session!r}: claim it again, nothing is lost"
    session: str


class LeaseLost(RefusedMessage):
    """Somebody else took the work over: stop working on it."""

    code = "lease_lost"
    sentence = (
        "session {session!r} holds no lease on message {message_id} with this token: if the token is right, "
        "somebody else took the work over, so stop; if not, claim again to see your own"
    )
    session: str


class TimeNotInFuture(RefusedMessage):
    """A snooze to a time that has come already."""

    code = "time_not_in_future"
    sentence = "{due_at} is not in the future: message {message_id} can only be snoozed to a later time"
    due_at: str


class NotWake(RefusedMessage):
    """The message does not ask for a wake."""

    code = "not_wake"
    sentence = "message {message_id} is for the next activity and wakes nobody: leave it to the next boundary"


class NotUnread(RefusedMessage):
    """The message was read or its work is claimed, so nobody needs waking for it."""

    code = "not_unread"
    sentence = "message {message_id} has been read or claimed: nobody needs waking for it"


class WakeAccepted(RefusedMessage):
    """A client took this occurrence already; that does not mean that a model read it."""

    code = "wake_accepted"
    sentence = (
        "occurrence {occurrence} of message {message_id} was handed to a client already: do not hand it over again"
    )
    occurrence: int


class ReservedByAnother(RefusedMessage):
    """Another receiver is about to hand this message over."""

    code = "reserved"
    sentence = "message {message_id} is reserved by session {owner!r} until {until}: leave it"
    owner: str
    until: str


class ReservationLost(RefusedMessage):
    """The reservation ran out, or is not this session's."""

    code = "reservation_lost"
    sentence = "session {session!r} holds no reservation of message {message_id} with this token: reserve it again"
    session: str


# --- the document as it stands ---------------------------------------------------------------------


class UnknownDocument(RefusedDocument):
    """No document stands under that path, or none any more."""

    code = "unknown_document"
    sentence = "there is no document {path} in {scope}: check the path, and what is mounted"
    wire_code = "memory_document_not_found"


class UnknownTurn(RefusedDocument):
    """The conversation has no turn of that number."""

    code = "unknown_turn"
    sentence = "there is no turn {turn} in {scope}{path}, which has {latest}: check the number and the conversation"
    wire_code = "memory_document_not_found"
    turn: int
    latest: int


class UnknownVersion(RefusedDocument):
    """The document was not there at that version."""

    code = "unknown_version"
    sentence = "document {path} in {scope} was not there at version {version} of {latest}: list its versions"
    wire_code = "memory_document_not_found"
    version: int
    latest: int


class MemoryConflict(RefusedDocument):
    """The document is not at the version that the caller expects (0: that there is none), or the place is taken."""

    code = "memory_conflict"
    sentence = (
        "document {path} in {scope} is at version {actual_version}, not {expected_version} ({reason}): "
        "read it again and decide again"
    )
    wire_code = "memory_conflict"
    reason: str
    expected_version: int
    actual_version: int


class RedactedDocument(RefusedDocument):
    """The content of the document was erased, so nobody can be referred to it, and it cannot be moved."""

    code = "redacted_document"
    sentence = "document {path} in {scope} was redacted, and there is nothing left to refer to or to move: name another"
    wire_code = "memory_document_not_found"


class UnsupportedDocument(RefusedDocument):
    """
    The document has an event that this fencepost does not know.

    It is reported and never rewritten.
    """

    code = "unsupported_document"
    sentence = "document {path} in {scope} is stored in a form this fencepost does not know ({why}): upgrade fencepost"
    wire_code = "memory_format_unsupported"
    why: str


# --- a place in the feed ---------------------------------------------------------------------------


class Ahead(RefusedPosition):
    """
    Nothing has happened at that position yet.

    A reader that has been further than the end has read another store, or an
    older copy of this one stands here now.
    """

    code = "ahead"
    sentence = "position {position} is beyond the end of the feed, {end}: poll from where you were, or begin anew"
    end: int


class Expired(RefusedPosition):
    """What stood behind the position was moved to an archive, and the caller takes no gap."""

    code = "expired"
    sentence = (
        "the changes behind {position} up to {through} are in the archive and not in the feed any more: "
        "read what stands now, and poll from {through}"
    )
    through: int


class MovesBack(RefusedPosition):
    """A checkpoint only moves forward; another reader of the same name may have been quicker."""

    code = "moves_back"
    sentence = "checkpoint {name} stands at {current} and cannot move back to {position}: go on from there"
    name: str
    current: int


# --- the program of an agent, and its history --------------------------------------------------------


class EngineFailed(AgentError):
    """
    The program of an agent has ended, or is not understood.

    Whether it has taken what it was given last is unknown: only its history says.
    """

    code = "engine_failed"
    sentence = "{program} has failed ({why}): see what it says in {log}; it is tried again, and nothing in hand is lost"
    program: str
    why: str
    log: str


class EngineNotStarted(AgentError):
    """The program of an agent cannot be started; what was saved for it waits."""

    code = "engine_not_started"
    sentence = "{program} cannot be started ({why}): mend what the agent is described with; it is tried again"
    program: str
    why: str


class EngineRefused(AgentError):
    """The program of an agent did not take the input, which may be handed to the same run again."""

    code = "engine_refused"
    sentence = "{program} did not take the input ({why}), so nothing was handed over: try again when it is at rest"
    program: str
    why: str


class FilesFailed(AgentError):
    """What an agent is to read in files cannot be put there."""

    code = "agent_files_failed"
    sentence = "{path} cannot be written ({why}): mend the cause, and it is tried again; nothing in hand is lost"
    path: str
    why: str


class NativeHistoryLost(NativeHistoryError):
    """The history of a session has become shorter, or is gone: what was to be found in it cannot be."""

    code = "native_history_lost"
    sentence = (
        "{path} has {size_bytes} bytes and once ended at {offset}, so it is not the history that it was: "
        "restore the file, or let the agent begin a new session"
    )
    offset: int
    size_bytes: int


class NativeHistoryUnreadable(NativeHistoryError):
    """The operating system refuses to read the history of a session."""

    code = "native_history_unreadable"
    sentence = "{path} cannot be read ({why}): mend the cause, and it is read again"
    why: str


class EntryAltered(NativeHistoryError):
    """
    The history has an entry under the identity of a delivery, and it says something else.

    It proves nothing, and to hand the delivery over again would say it twice.
    """

    code = "entry_altered"
    sentence = (
        "entry {entry} of {path} is delivery {delivery} with another text, which proves nothing: "
        "find out what rewrites the input of the program, and let the agent begin a new session"
    )
    delivery: str
    entry: str


# --- an agent as it stands -------------------------------------------------------------------------


class AgentTaken(RefusedAgent):
    """Another controller feeds the agent."""

    code = "agent_taken"
    sentence = "another controller feeds agent {agent}: end that one first, or leave it to it"


class AgentNotBegun(RefusedAgent):
    """The agent has no session yet that anything could be sent to."""

    code = "agent_not_begun"
    sentence = "agent {agent} has no session yet: run the fleet once, and send again"


# --- a Matrix homeserver ---------------------------------------------------------------------------


class HomeserverUnavailable(HomeserverTrouble):
    """It cannot be reached, does not answer in time, or has failed."""

    code = "homeserver_unavailable"
    sentence = "{url} does not answer ({why}): start the homeserver, or check its address; it is asked again"
    why: str


class HomeserverBusy(HomeserverTrouble):
    """It wants to be asked less often, for longer than can be waited for."""

    code = "homeserver_busy"
    sentence = "{url} wants to be left alone for {wait_ms} ms: wait for so long, or raise the rate limits of the user"
    wait_ms: int


class AccessTokenRefused(HomeserverTrouble):
    """It does not know the access token, because its user was logged out or because it is another's."""

    code = "access_token_refused"
    sentence = "{url} does not know the access token, which came from {origin}: log in again and put the new one there"
    origin: str


class HomeserverRefused(HomeserverTrouble):
    """It does not allow what is asked, or does not have it."""

    code = "homeserver_refused"
    sentence = "{url} refuses {asked} with status {status} {reason} ({said}): see what the user may do there"
    asked: str
    status: int
    reason: str
    said: str


class StrangeHomeserver(HomeserverTrouble):
    """What answers is no homeserver, or one that does not keep to the Matrix specification."""

    code = "strange_homeserver"
    sentence = "{url} has answered what no homeserver does ({why}): check its address, and what stands before it"
    why: str
