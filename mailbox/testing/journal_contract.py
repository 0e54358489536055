"""
What every journal promises, one test for each promise.

    class TestMyJournal(JournalContract):
        @pytest.fixture(autouse=True)
        def somewhere(self, tmp_path):
            self.root = tmp_path / "journal"

        def open(self):
            return MyJournal(self.root)

The promises are those of `fencepost.journal.port.Journal`.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import ClassVar

import attrs
import pytest

from fencepost.journal.errors import BatchTooLarge, ClosedHandle, JournalConflict, JournalCorrupt, TargetOccupied
from fencepost.journal.event import Batch, Checkpoint, Commit, NewEvent
from fencepost.journal.frame import BATCH_EVENTS_MAX, GENESIS
from fencepost.journal.memory import MemoryJournal
from fencepost.journal.port import Journal, Stream
from fencepost.journal.recovery import BEGINNING

_NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)
A: Stream = ("user:me", "a")
B: Stream = ("user:me", "b")


def event(stream: Stream, data: bytes = b"{}", key: str | None = None) -> NewEvent:
    """An event to append."""
    return NewEvent(*stream, "tried", data, key)


def batch(*events: NewEvent, at: datetime = _NOON) -> Batch:
    """A batch of events."""
    return Batch(at, "host:suite", events)


class Reader:
    """Somebody who folds a journal, and knows nothing but versions and keys."""

    def __init__(self) -> None:
        self._place = BEGINNING
        self._versions: dict[Stream, int] = {}
        self._keys: set[str] = set()

    def take_in(self, commits: Iterable[Commit]) -> None:
        """Fold batches."""
        for commit in commits:
            for each in commit.events:
                self._versions[each.scope, each.stream] = each.version
                if each.key is not None:
                    self._keys.add(each.key)
            self._place = commit.end

    def checkpoint(self) -> Checkpoint:
        """See `fencepost.journal.port.Heads`."""
        return self._place

    def version(self, stream: Stream, /) -> int:
        """See `fencepost.journal.port.Heads`."""
        return self._versions.get(stream, 0)

    def knows_key(self, digest: str, /) -> bool:
        """See `fencepost.journal.port.Heads`."""
        return digest in self._keys


class JournalContract:
    """
    The promises.  A subclass whose name begins with Test says how to open a journal.

    Attributes:
        persists: A journal can be closed and opened again, and two handles can share it.
    """

    persists: ClassVar[bool] = True

    def open(self) -> Journal:
        """A handle of the journal of this test, which is empty at first."""
        raise NotImplementedError

    def setup_method(self) -> None:
        """Begin with no handle."""
        self._handles: list[Journal] = []

    def teardown_method(self) -> None:
        """Close every handle."""
        for handle in self._handles:
            handle.close()

    def handle(self) -> Journal:
        """A handle that is closed after the test."""
        journal = self.open()
        self._handles.append(journal)
        return journal

    def another_handle(self) -> Journal:
        """A second one, where the backend has such a thing."""
        if not self.persists:
            pytest.skip("this journal lasts as long as its handle")
        return self.handle()

    # --- appending ----------------------------------------------------------------------------------------------

    def test_what_is_appended_is_returned_as_it_was_recorded(self) -> None:
        """A commit holds what was given, and what the journal added: sequence, version, time as text."""
        commit = self.handle().append(batch(event(A, b'{"n":1}')), {A: 0})
        (only,) = commit.events

        assert (1, 1, "2026-11-30T12:00:00Z") == (only.seq, only.version, only.at)
        assert ("host:suite", "user:me", "a", "tried") == (only.actor, only.scope, only.stream, only.type)
        assert (b'{"n":1}', None) == (only.data, only.key)
        assert (1, commit.digest) == (commit.end.seq, commit.end.digest)

    def test_the_sequence_has_no_gaps(self) -> None:
        """Each event has the next number, across batches and streams."""
        journal = self.handle()
        journal.append(batch(event(A), event(B)), {A: 0, B: 0})
        journal.append(batch(event(A)), {A: 1})

        assert [1, 2, 3] == [each.seq for commit in journal.read() for each in commit.events]

    def test_a_version_counts_the_events_of_one_stream(self) -> None:
        """A stream is a scope and a name; the same name in another scope is another stream."""
        journal = self.handle()
        elsewhere = ("user:you", "a")
        journal.append(batch(event(A), event(elsewhere), event(A)), {A: 0, elsewhere: 0})
        commit = journal.append(batch(event(elsewhere), event(A)), {elsewhere: 1, A: 2})

        assert [2, 3] == [each.version for each in commit.events]

    @pytest.mark.parametrize("expected", [0, 2])
    def test_another_version_than_expected_writes_nothing(self, expected: int) -> None:
        """Two writers from the same place: one wins, and the other learns where the stream is."""
        journal = self.handle()
        before = journal.append(batch(event(A)), {A: 0})

        with pytest.raises(JournalConflict) as caught:
            journal.append(batch(event(A)), {A: expected})

        assert (*A, expected, 1) == tuple(caught.value.details.values())
        assert [before] == list(journal.read())
        assert 1 == journal.refresh()

    def test_a_batch_is_appended_whole_or_not_at_all(self) -> None:
        """One stream that moved on refuses the events of all the others."""
        journal = self.handle()
        journal.append(batch(event(B)), {B: 0})

        with pytest.raises(JournalConflict):
            journal.append(batch(event(A), event(B)), {A: 0, B: 0})

        assert 1 == journal.append(batch(event(A)), {A: 0}).events[0].version

    def test_a_refused_batch_takes_no_number(self) -> None:
        """What comes after a conflict goes on where the last success ended."""
        journal = self.handle()
        journal.append(batch(event(A)), {A: 0})
        with pytest.raises(JournalConflict):
            journal.append(batch(event(A)), {A: 0})

        assert 2 == journal.append(batch(event(A)), {A: 1}).events[0].seq

    @pytest.mark.parametrize("count", [0, BATCH_EVENTS_MAX + 1])
    def test_a_batch_has_at_least_one_event_and_not_too_many(self, count: int) -> None:
        """An empty batch and one over the limit are refused, and nothing is written."""
        journal = self.handle()

        with pytest.raises(BatchTooLarge):
            journal.append(batch(*[event(A)] * count), {A: 0})

        assert [] == list(journal.read())

    def test_the_largest_batch_is_taken(self) -> None:
        """A batch at the limit is appended whole."""
        journal = self.handle()
        journal.append(batch(*[event(A)] * BATCH_EVENTS_MAX), {A: 0})

        assert BATCH_EVENTS_MAX == journal.refresh()

    @pytest.mark.parametrize("data", [b"null", '{"a":"\u2028\U0001f600 \\u0000"}'.encode(), b'"%b"' % (b"x" * 300_000)])
    def test_data_comes_back_byte_for_byte(self, data: bytes) -> None:
        """JSON is carried as it was given, however large."""
        journal = self.handle()
        commit = journal.append(batch(event(A, data)), {A: 0})

        assert data == journal.commit_at(commit.segment, commit.offset).events[0].data

    def test_order_is_by_sequence_and_never_by_time(self) -> None:
        """A clock that was set back changes nothing."""
        journal = self.handle()
        journal.append(batch(event(A)), {A: 0})
        journal.append(batch(event(A), at=_NOON - timedelta(hours=12)), {A: 1})

        times = [commit.events[0].at for commit in journal.read()]
        assert ["2026-11-30T12:00:00Z", "2026-11-30T00:00:00Z"] == times

    def test_threads_may_share_a_handle(self) -> None:
        """Nothing is lost, and every event has a number of its own."""
        journal = self.handle()
        go = threading.Barrier(4)

        def write(name: str) -> None:
            go.wait()
            for version in range(5):
                journal.append(batch(event(("user:me", name))), {("user:me", name): version})

        threads = [threading.Thread(target=write, args=(f"thread {number}",)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        assert list(range(1, 21)) == [each.seq for commit in journal.read() for each in commit.events]

    # --- idempotency keys --------------------------------------------------------------------------------------

    def test_a_key_is_used_once(self) -> None:
        """A second event under the same key in the same scope is refused whole."""
        journal = self.handle()
        journal.append(batch(event(A, key="k")), {A: 0})

        with pytest.raises(JournalConflict):
            journal.append(batch(event(B, key="k")), {B: 0})

        assert 1 == journal.refresh()

    def test_a_key_belongs_to_a_scope(self) -> None:
        """The same key in another scope is another key."""
        journal = self.handle()
        elsewhere = ("user:you", "a")
        journal.append(batch(event(A, key="k"), event(elsewhere, key="k")), {A: 0, elsewhere: 0})

        assert 2 == journal.refresh()

    def test_a_refused_key_is_not_used(self) -> None:
        """A batch that was refused for another reason leaves its key free."""
        journal = self.handle()
        with pytest.raises(JournalConflict):
            journal.append(batch(event(A, key="k")), {A: 7})

        assert 1 == journal.append(batch(event(A, key="k")), {A: 0}).end.seq

    def test_a_key_is_recorded_as_its_keyed_digest(self) -> None:
        """The digest tells a repeat, and does not tell the key."""
        journal = self.handle()
        commit = journal.append(batch(event(A, key="secret")), {A: 0})

        assert journal.key_digest("user:me", "secret") == commit.events[0].key
        assert len({journal.key_digest(*words) for words in (("s:a", "k"), ("s:a", "l"), ("s:b", "k"))}) == 3
        assert "secret" not in str(commit)

    def test_a_key_of_another_journal_is_known(self) -> None:
        """Whoever adopts the secret of another journal records its digests, and knows its keys again."""
        journal, other = self.handle(), MemoryJournal()
        recorded = other.append(batch(event(A, key="k")), {A: 0}).events[0]
        journal.adopt(other.secret())
        journal.append(batch(attrs.evolve(event(A), digest=recorded.key)), {A: 0})

        assert recorded.key == journal.key_digest(A[0], "k")
        assert other.secret() == journal.secret()
        with pytest.raises(JournalConflict):
            journal.append(batch(event(B, key="k")), {B: 0})

    def test_a_journal_with_a_history_adopts_nothing(self) -> None:
        """Its own keys would be forgotten."""
        journal = self.handle()
        journal.append(batch(event(A, key="k")), {A: 0})
        before = journal.secret()

        with pytest.raises(TargetOccupied):
            journal.adopt(bytes(32))

        assert before == journal.secret()

    # --- reading ---------------------------------------------------------------------------------------------------

    def test_reading_gives_what_append_returned(self) -> None:
        """Whoever reads later sees exactly what the writer was told."""
        journal = self.handle()
        written = [
            journal.append(batch(event(A, b"[1]"), event(B, b"[2]", key="k")), {A: 0, B: 0}),
            journal.append(batch(event(A, b"[3]")), {A: 1}),
        ]

        assert written == list(journal.read())
        assert written == [journal.commit_at(commit.segment, commit.offset) for commit in written]

    def test_reading_goes_on_behind_a_checkpoint(self) -> None:
        """The end of each batch is a place to go on from; behind the last there is nothing."""
        journal = self.handle()
        written = [journal.append(batch(event(A)), {A: version}) for version in range(3)]

        assert written[1:] == list(journal.read(written[0].end))
        assert [] == list(journal.read(written[-1].end))

    def test_an_empty_journal_reads_as_nothing(self) -> None:
        """There is a place before the first batch."""
        journal = self.handle()

        assert ([], 0, 0) == (list(journal.read()), journal.refresh(), journal.durable())

    def test_each_batch_has_a_digest_of_its_own(self) -> None:
        """The same events twice are two batches, and their digests tell them apart."""
        journal = self.handle()
        digests = [journal.append(batch(event(A)), {A: version}).digest for version in range(3)]

        assert len({GENESIS, *digests}) == 4

    def test_no_batch_is_found_where_none_begins(self) -> None:
        """A place that no commit named is reported, never answered with something else."""
        journal = self.handle()
        commit = journal.append(batch(event(A)), {A: 0})

        with pytest.raises(JournalCorrupt):
            journal.commit_at(commit.segment, commit.offset + 1)

    # --- what is durable ----------------------------------------------------------------------------------------

    def test_what_was_appended_is_durable(self) -> None:
        """When `append` returns, its batch is on the disk, and settling has nothing to wait for or take back."""
        journal = self.handle()
        journal.refresh()
        epoch = journal.epoch()
        commit = journal.append(batch(event(A)), {A: 0})

        assert journal.settle(epoch)
        assert epoch == journal.epoch()
        assert commit.seq == journal.durable() == journal.refresh()

    def test_what_was_appended_without_waiting_is_there(self) -> None:
        """It has its number and version, whoever appends next goes on behind it, and settling makes it durable."""
        journal = self.handle()
        journal.refresh()
        epoch = journal.epoch()
        loose = journal.append(batch(event(A)), {A: 0}, settle=False)

        assert loose.seq == journal.refresh()
        assert [loose] == list(journal.pending())
        assert journal.settle(epoch)
        assert loose.seq == journal.durable()
        assert [loose] == list(journal.read())

    def test_whoever_waits_makes_durable_what_did_not(self) -> None:
        """A batch that is durable leaves none before it behind."""
        journal, other = self.handle(), self.handle() if self.persists else None
        loose = journal.append(batch(event(A)), {A: 0}, settle=False)
        whole = (other or journal).append(batch(event(B)), {B: 0})

        assert [loose, whole] == list(journal.read())
        assert whole.seq == journal.durable()

    # --- from a number on -------------------------------------------------------------------------------------

    def test_reading_begins_behind_any_number(self) -> None:
        """Whichever event a reader has seen last, it goes on with the batch that holds the next one."""
        journal = self.handle()
        sizes = [1, 3, 1, 1, 4, 2, 1, 1, 1, 30]
        for version, size in enumerate(sizes):
            many = [event(A), *[event(("user:me", f"b{version}"), b'"%b"' % (b"x" * 50 * version))] * (size - 1)]
            journal.append(batch(*many), {A: version})
        written = list(journal.read())

        for seq in range(sum(sizes) + 1):
            wanted = [commit for commit in written if commit.seq > seq]
            assert wanted == list(journal.read(journal.place_before(seq)))

    def test_nothing_was_moved_at_first(self) -> None:
        """Without an archive everything is kept, from the first event on."""
        journal = self.handle()
        journal.append(batch(event(A)), {A: 0})

        assert 1 == journal.kept_from()

    # --- erasing ------------------------------------------------------------------------------------------------

    def test_what_is_erased_is_gone_and_the_rest_stays(self) -> None:
        """Data and nothing else: the envelope, the chain and every other event are as they were."""
        journal = self.handle()
        first = journal.append(batch(event(A, b'"one"', key="k"), event(B, b'"two"')), {A: 0, B: 0})
        second = journal.append(batch(event(A, b'"three"')), {A: 1})
        act = journal.append(attrs.evolve(batch(event(A, b'"gone"')), erases=(1, 3)), {A: 2})
        expected = [
            [first.events[0]._replace(data=None), first.events[1]],
            [second.events[0]._replace(data=None)],
            [act.events[0]],
        ]

        found = list(journal.read())

        assert expected == [list(commit.events) for commit in found]
        assert [commit.digest for commit in (first, second, act)] == [commit.digest for commit in found]
        assert found[0] == journal.commit_at(first.segment, first.offset)
        assert found == list(journal.pending())

    def test_erasing_again_changes_nothing_more(self) -> None:
        """What is gone cannot go again, and nobody minds."""
        journal = self.handle()
        journal.append(batch(event(A, b'"one"')), {A: 0})
        for version in range(1, 4):
            journal.append(attrs.evolve(batch(event(A)), erases=(1,)), {A: version})

        assert [None, b"{}", b"{}", b"{}"] == [each.data for commit in journal.read() for each in commit.events]

    def test_erasing_counts_generations(self) -> None:
        """Whoever has folded what is erased learns with the next look that it has to be folded anew."""
        journal = self.handle()
        journal.append(batch(event(A)), {A: 0})
        journal.refresh()
        before = journal.generation()
        journal.append(batch(event(A)), {A: 1})
        journal.refresh()
        assert before == journal.generation()

        journal.append(attrs.evolve(batch(event(A)), erases=(1,)), {A: 2})
        journal.refresh()

        assert before != journal.generation()

    def test_what_was_decided_before_an_erasure_is_refused(self) -> None:
        """Its version does not tell of that, and others may have looked with the same handle since."""
        journal = self.handle()
        journal.append(batch(event(A)), {A: 0})
        journal.refresh()
        looked = journal.generation()
        journal.append(attrs.evolve(batch(event(B)), erases=(1,)), {B: 0})
        journal.refresh()

        with pytest.raises(JournalConflict):
            journal.append(batch(event(A)), {A: 1}, looked=looked)

        journal.append(batch(event(("user:me", "new"))), {("user:me", "new"): 0}, looked=looked)
        journal.append(batch(event(A)), {A: 1}, looked=journal.generation())

    def test_another_handle_forgets_what_is_erased(self) -> None:
        """Also what it has in mind already."""
        journal, other = self.handle(), self.another_handle()
        journal.append(batch(event(A, b'"one"')), {A: 0})
        other.append(batch(event(A, b'"two"')), {A: 1})
        before = other.generation()
        journal.append(attrs.evolve(batch(event(B)), erases=(1, 2)), {B: 0})
        other.refresh()

        assert before != other.generation()
        assert [None, None, b"{}"] == [each.data for commit in other.pending() for each in commit.events]

    # --- whoever folds it ----------------------------------------------------------------------------------------

    def test_pending_is_what_the_reader_has_not_taken_in(self) -> None:
        """Trimming forgets what the reader has, and nothing more."""
        journal, reader = self.handle(), Reader()
        journal.attach(reader)
        written = [journal.append(batch(event(A)), {A: version}) for version in range(3)]
        assert written == list(journal.pending()) == list(journal.owed())

        reader.take_in(written[:2])
        journal.trim()

        assert written[2:] == list(journal.pending()) == list(journal.owed())

    def test_versions_and_keys_hold_after_trimming(self) -> None:
        """What a journal has forgotten it asks of the reader."""
        journal, reader = self.handle(), Reader()
        journal.attach(reader)
        reader.take_in([journal.append(batch(event(A, key="k")), {A: 0})])
        journal.trim()

        with pytest.raises(JournalConflict):
            journal.append(batch(event(A)), {A: 0})
        with pytest.raises(JournalConflict):
            journal.append(batch(event(B, key="k")), {B: 0})
        assert 2 == journal.append(batch(event(A)), {A: 1}).events[0].version

    def test_a_reader_may_come_late(self) -> None:
        """Attached to a reader that is behind, a journal has the rest pending."""
        journal, reader = self.handle(), Reader()
        written = [journal.append(batch(event(A)), {A: version}) for version in range(3)]
        reader.take_in(written[:1])
        journal.attach(reader)
        journal.refresh()

        assert written[1:] == list(journal.pending())

    # --- two handles -------------------------------------------------------------------------------------------

    def test_another_handle_learns_of_it(self) -> None:
        """Refreshing finds what others appended, and it is pending here too."""
        journal, other = self.handle(), self.another_handle()
        commit = journal.append(batch(event(A)), {A: 0})

        assert (1, 1) == (other.refresh(), other.durable())
        assert [commit] == list(other.pending()) == list(other.read())

    def test_another_handle_cannot_overtake(self) -> None:
        """Versions and keys are those of the journal, not of the handle, without a refresh in between."""
        journal, other = self.handle(), self.another_handle()
        journal.append(batch(event(A, key="k")), {A: 0})

        with pytest.raises(JournalConflict):
            other.append(batch(event(A)), {A: 0})
        with pytest.raises(JournalConflict):
            other.append(batch(event(B, key="k")), {B: 0})
        assert 2 == other.append(batch(event(A)), {A: 1}).events[0].seq
        assert 2 == journal.refresh()

    def test_two_handles_write_in_turn(self) -> None:
        """The log is one log, whoever writes it."""
        handles = [self.handle(), self.another_handle()]
        written = [handles[version % 2].append(batch(event(A)), {A: version}) for version in range(6)]

        assert written == list(handles[0].read()) == list(handles[1].read())

    # --- closing -----------------------------------------------------------------------------------------------

    def test_it_can_be_closed_twice(self) -> None:
        """Closing again does nothing."""
        journal = self.handle()
        journal.close()
        journal.close()

    def test_a_closed_handle_refuses_to_write(self) -> None:
        """It says that it was closed."""
        journal = self.handle()
        journal.close()

        with pytest.raises(ClosedHandle):
            journal.append(batch(event(A)), {A: 0})

    def test_what_was_written_is_there_after_a_reopen(self) -> None:
        """Batches, versions, keys and the sequence go on."""
        journal = self.handle()
        written = [journal.append(batch(event(A, key="k")), {A: 0}), journal.append(batch(event(B)), {B: 0})]
        journal.close()
        again = self.another_handle()

        assert written == list(again.read())
        with pytest.raises(JournalConflict):
            again.append(batch(event(B, key="k")), {B: 1})
        following = again.append(batch(event(A)), {A: 1})
        assert (3, 2) == (following.end.seq, following.events[0].version)

    def test_a_place_is_good_after_a_reopen(self) -> None:
        """A checkpoint outlives the handle that gave it."""
        journal = self.handle()
        first = journal.append(batch(event(A)), {A: 0})
        second = journal.append(batch(event(A)), {A: 1})
        journal.close()
        again = self.another_handle()

        assert [second] == list(again.read(attrs.evolve(first.end)))
        assert first == again.commit_at(first.segment, first.offset)
