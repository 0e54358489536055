"""
A correction of an old turn, from its sending to its end.

It is found by searching for the turn, recalled behind it, and erased from every file, and the journal still proves
itself.
"""

from fencepost.journal.audit import verify
from fencepost.journal.reader import FileReader
from fencepost.mailbox import Conversations, Mailbox, Mount, Past, open_store

MOUNTS = [Mount("user:me/proj:app", "/project")]


def test_a_correction(tmp_path):
    store = open_store(tmp_path / "store")
    talks = Conversations(store, actor="host:agent")
    box = Mailbox(store, MOUNTS, actor="host:reviewer")
    past = Past(store, MOUNTS)

    # A session says something, and long afterwards somebody knows better.
    talks.append_turn("s-42", [{"role": "user", "content": "Which port does staging use?"}])
    turn = talks.append_turn("s-42", [{"role": "assistant", "content": "Staging listens on port 8080."}])
    fix = box.send("Port 8081 since Monday; the password is hunter2.", about="s-42", about_turn=turn.turn)
    box.ack(fix.message.id, session="s-43", occurrence=1)

    # Whoever searches for what was said finds the correction with it, though another session has read it.
    found = [hit for hit in past.search("staging PORT").hits if hit.turn == turn.turn]
    assert [fix.message.id] == [each.message_id for each in found[0].annotations]

    # Recall gives the turn as it was, and the correction behind it.
    (recalled,) = past.recall("s-42", turn=turn.turn).turns
    assert recalled.turn == turn
    assert recalled.annotations[0].message.letter.body.startswith("Port 8081")

    # It should not have held a password.  Afterwards no file does.
    box.redact(fix.message.id, reason="It held a password.")
    assert past.search("hunter2").hits == ()
    assert past.recall("s-42", turn=turn.turn).turns[0].annotations[0].why == "erased"
    store.close()
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert [path for path in files if b"hunter2" in path.read_bytes()] == []

    # The chain still verifies, and says that something was erased.
    report = verify(FileReader(tmp_path / "store"))
    assert report.damage is None
    assert report.erased == 2
