"""
What is done to a store, and what a crash in the midst of it may leave.

A *scenario* is a history that is over, one deed that a crash strikes, and the histories that may be seen afterwards.
"""

import contextlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

from crash.faulty_disk import Crash, Fault, Pages, Stop, When
from crash.images import Image, images, lost
from crash.scenes import LATER, SECRET_BYTES, SEGMENT_BYTES, World, look, message_id

from fencepost.journal.errors import SyncFailed
from fencepost.journal.retention import retain as move_old_segments
from fencepost.mailbox import Draft, Projection


def _says(content):
    return {"role": "user", "content": content}


class Deed:
    """Something done by a process, by a name that stands for its ids and tokens."""

    def __init__(self, name, act):
        self.name = name
        self._act = act

    def __call__(self, process):
        self._act(process)

    def __repr__(self):
        return self.name


def send(name, body="Look at the build.", **options):
    return Deed(name, lambda process: process.box(name).send(body, **options))


def step(name, command, of, **options):
    """A step of the lifecycle on the message that the deed `of` sent."""

    def act(process):
        who = {"session": "ada", "occurrence": 1} | options
        getattr(process.box(name), command)(message_id(of), **who)

    return Deed(name, act)


def fenced(name, command, of, by, **options):
    """A step by the holder of the token that the deed `by` got."""
    return step(name, command, of, token=f"token of {by}", **options)


def document(name, command, *words, **options):
    """Something done to a document."""
    return Deed(name, lambda process: getattr(process.documents(), command)(*words, **options))


def renew_index(process):
    process.close()
    for name in os.listdir(process.world.root):
        if name.startswith("index-"):
            os.unlink(os.path.join(process.world.root, name))
    assert process.store


def damage_index(process):
    process.close()
    for name in os.listdir(process.world.root):
        if name.endswith(".sqlite"):
            with open(os.path.join(process.world.root, name), "r+b") as handle:
                handle.write(b"no database" * 10)
    assert process.store


def retain(process):
    move_old_segments(process.store._journal, LATER + timedelta(days=1), disk=process.disk)


def redact(process):
    process.box("redact").redact(message_id("secret"), reason="It should not have been said.")


CREATE = Deed("create", lambda process: process.store)
CLOSE = Deed("close", lambda process: process.close())
NOTE = send("note", conversation="ada")
WORK = send("work", actionable=True)
WAKE = send("wake", conversation="ada", delivery="wake", session="ben")
CLAIM = step("claim", "claim", "work")
RESERVE = step("reserve", "reserve", "wake")
LINK = Deed("link", lambda process: process.box("link").link("ben", "ada"))
KEYED = send("keyed", idempotency_key="key 1")
LONG = send("long", "Ärger " * 600)
MANY = Deed(
    "many",
    lambda process: process.box("many").send_many([Draft(f"number {n}", target="/user") for n in range(3)]),
)
ANOTHER = send("another", "Look at the tests.", session="cyd")
PLAN = document("plan", "write", "/project/notes/plan.md", "First the tests.")
REPLAN = document("plan again", "write", "/project/notes/plan.md", "Ärger " * 600, expected_version=1)
UNPLAN = document("no plan", "delete", "/project/notes/plan.md")
MOVE = document("move", "rename", "/project/notes/plan.md", "/user/plan.md")
BACK = document("back", "rename", "/user/plan.md", "/project/notes/plan.md")
TURN = Deed("turn", lambda process: process.talks().append_turn("ada", [_says("Look at the build.")]))
LONG_TURN = Deed("long turn", lambda process: process.talks().append_turn("ada", [_says("Ärger " * 600)]))
PROJECT = Deed(
    "project",
    lambda process: process.talks().append_projections(
        "ada", [Projection(1, "log", "They looked."), Projection(2, "digest", "They looked on.", 2)]
    ),
)
SECRET_TURN = Deed(
    "secret turn", lambda process: process.talks().append_turn("ada", [_says(f"It is {SECRET_BYTES.decode()}.")])
)
PROJECT_SECRET = Deed(
    "project secret",
    lambda process: process.talks().append_projections(
        "ada", [Projection(2, "digest", f"{SECRET_BYTES.decode()} was said.", 2), Projection(4, "log", "And on.")]
    ),
)
SECRET = send("secret", f"The password is {SECRET_BYTES.decode()}.", actionable=True, idempotency_key="once")
CLAIM_SECRET = step("claim secret", "claim", "secret")
SOLVE_SECRET = fenced(
    "solve secret",
    "complete",
    "secret",
    "claim secret",
    outcome=f"It was {SECRET_BYTES.decode()}, and is not any more.",
)
REDACT = Deed("redact", redact)
REDACT_TURNS = Deed("redact turns", lambda process: process.talks().redact_turns("ada", turns=[2], reason="Oh."))
REDACT_AGAIN = Deed("redact again", redact)
RETAIN = Deed("retain", retain)
SHOW = Deed("show", lambda process: process.box("show").shown([message_id("work")], session="ada", door="hook"))
SHOW_SECRET = Deed(
    "show secret",
    lambda process: process.box("show secret").shown(
        [message_id("secret")], session=SECRET_BYTES.decode(), door="hook"
    ),
)
ADVANCE = Deed("advance", lambda process: process.changes().advance("indexer", 1))
FURTHER = Deed("further", lambda process: process.changes().advance("indexer", 2))
#: Shows that the store still works, and never done before a crash.
PROBE = send("probe", "And on.")
PROBE_TWO = send("probe two", "And on?")
SMALL = 2_048
#: As many messages as fill a small segment to the brim: with the next one another segment begins.
FILL = tuple(send(f"fill {n}", "x" * 80) for n in range(2))
THREE_SEGMENTS = tuple(send(f"part {n}", "x" * 400) for n in range(5))


@dataclass
class Scenario:
    """
    A deed that a crash strikes.

    Attributes:
        done: What was done before, and acknowledged.
        deed: What is struck.
        prepare: Makes the world of the deed out of one in which `done` was done; for worlds that need recovery.
        seen: The histories that may be seen where the deed was not acknowledged.
        acknowledged: Those where it was.
        cold: A new process does it.
        again: Doing it again when it may have been done changes nothing more.
        erases: It erases something.
    """

    name: str
    done: tuple[Deed, ...]
    deed: Deed
    prepare: Callable[[World], World] | None = None
    seen: tuple[tuple[Deed, ...], ...] = ()
    acknowledged: tuple[tuple[Deed, ...], ...] = ()
    segment_bytes: int = SEGMENT_BYTES
    cold: bool = False
    again: bool = False
    erases: bool = False

    def __post_init__(self):
        both = (*self.done, self.deed)
        self.seen = self.seen or (self.done, both)
        self.acknowledged = self.acknowledged or (both,)

    def __str__(self):
        return self.name

    def begin(self):
        """A world in which the deed can be done, and the process to do it."""
        world = World(segment_bytes=self.segment_bytes)
        process = world.start()
        process.do(*self.done)
        if self.prepare is not None:
            prepared = self.prepare(world)
            if prepared is not world:
                world.close()
            world = prepared
        if self.cold or world.processes == [] or world.processes[-1].disk.dead:
            for each in world.processes:
                each.disk.dead or each.close()
            return world, world.start()
        return world, world.processes[-1]


_references = {}


def shown_after(deeds):
    """What a store shows in which only these deeds were done."""
    key = tuple(deed.name for deed in deeds)
    if key not in _references:
        with World() as world:
            process = world.start()
            process.do(*deeds)
            _references[key] = look(process)
    return _references[key]


# --- worlds that need recovery ---------------------------------------------------------------------------------


def strike(world, deed, step_name, when=When.BEFORE, *, nth=1, opening=False):
    """Let a new process do a deed and die at the n-th step of that name, which may be one of opening the store."""
    with_steps = world.start()
    with contextlib.suppress(Crash):
        if not opening:
            with_steps.do(CREATE)
            with_steps.disk.arm()
        _arm_at_name(with_steps.disk, step_name, when, nth)
        with_steps.do(deed)
    assert with_steps.disk.dead, f"{deed} never comes to {step_name}: {with_steps.disk.log}"
    with_steps.kill()


def _arm_at_name(disk, step_name, when, nth):
    """Stop at a step by its name: the number is only known once it comes."""
    real = disk.step
    count = 0

    def step(name, act, half=None):
        nonlocal count
        if name.startswith(step_name):
            count += 1
            if count == nth:
                disk.stop = Stop(disk.steps + 1, when)
        return real(name, act, half)

    disk.step = step


def _power_cut(world, chosen):
    """
    A world in which some pieces of the open segment reached the disk that no sync has covered.

    Args:
        world: One in which nobody has synced the last frames.
        chosen: Takes the frames that nobody has synced, each with the numbers of its pieces, and gives those numbers.
    """
    (name,) = [path for path in lost(world.shadow).tree if path.endswith(".log")]
    file = world.shadow.find(os.path.join(world.top, name))
    frames = {}
    for number, (op, _) in enumerate(file.open_pieces()):
        if op.data is not None and op.data[:1] != b"\0":
            frames.setdefault(op, []).append(number)
    tree = lost(world.shadow).tree | {name: file.with_pieces(set(chosen(*frames.values())), full_size=True)}
    return world.after_power_cut(Image("chosen", tree))


def torn(world):
    """A frame of which only the end reached the disk."""
    strike(world, LONG, "sync_data")
    return _power_cut(world, lambda frame: frame[2:])


def torn_begin(world):
    """A frame of which only the beginning reached the disk."""
    strike(world, LONG, "sync_data")
    return _power_cut(world, lambda frame: frame[:2])


def reordered(world):
    """Two frames that nobody synced, of which only the later one reached the disk."""
    strike(world, LONG, "sync_data")
    strike(world, ANOTHER, "sync_data")
    return _power_cut(world, lambda _, later: later)


def whole(world):
    """A frame that nobody was told about, and that reached the disk whole."""
    strike(world, LONG, "sync_data")
    return _power_cut(world, lambda frame: frame)


def killed(step_name, deed=LONG, when=When.BEFORE, nth=1):
    """A process that was killed at a step; the machine runs on."""

    def prepare(world):
        strike(world, deed, step_name, when, nth=nth)
        return world

    return prepare


def rotation_cut(step_name, when):
    """A power cut in the midst of a rotation that keeps all that it can keep."""

    def prepare(world):
        strike(world, ANOTHER, step_name, when)
        return world.after_power_cut(images(world.shadow, 2, seed=1)[-1])

    return prepare


def sync_failed(pages, deed=LONG):
    """A process whose sync failed, and which goes on."""

    def prepare(world):
        process = world.processes[-1]
        process.disk.arm(fault=Fault(1, 5, only="sync_data", pages=pages))
        with contextlib.suppress(SyncFailed):
            process.do(deed)
            raise AssertionError("a failed sync was acknowledged")
        process.disk.arm()
        return world

    return prepare


def sync_failed_and_forgotten(world):
    """A failed sync whose poison nobody remembers: the next one sees pages that were never written."""
    world = sync_failed(Pages.CLEAN)(world)
    world.processes[-1].kill()
    os.unlink(os.path.join(world.root, "watermark"))
    return world


def torn_copy(world):
    """A torn copy and a copy that was being made, both of them with what is to be erased."""
    tree = lost(world.shadow).tree
    folder = os.path.join("store", "journal", "torn", "")
    copies = {f"{folder}{1:016d}-0-0123456789abcdef", f"{folder}.{1:016d}-0-0.0123abcd.tmp"}
    return world.after_power_cut(Image("chosen", tree | dict.fromkeys(copies, b"x" * 700 + SECRET_BYTES)))
