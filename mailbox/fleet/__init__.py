"""
Rooms of a Matrix homeserver into the histories of coding agents, with proof of receipt.

    homeserver ─► matrix ─► listener ─► said ─► policy ─► batch ─► writing ─► agent ─► engine (codex | pi)
                                                                       files ◄┘ │ ▲          │
                                                          journal, streams /fleet/…  └─ history ◄┘

`said`, `policy`, `batch` and `writing` are pure, as are `fencepost.mailbox.confirmation`, which says what is to be done
next, and `fencepost.mailbox.rooms`, which says what was read.
"""
