"""
What is sent, to whom, in every comparison; without imports, because every side needs it.
"""

LOGIN = "bench"
PROJECT = "bench"
#: Where the program looks in a folder of that name, for a user of that name.
SCOPE = f"user:{LOGIN}/proj:{PROJECT}"
SESSION = "s-1"
#: 200 bytes, a long sentence.
BODY = (
    "The nightly build of the parser failed after the update of its dependencies. "
    "Find out which of them changed the order of keys, pin it, and say in the change log why; "
    "the log is kept under ci/nightly."
)
OUTCOME = "A flaky cache: the key had no version in it."
#: How many a listing shows when nobody says.
LISTED = 50
#: A word that so many messages of a store have in them.
WORD = "turnstile"
#: Of four stored messages two are unread for everybody, one is for another conversation, one is due in a year.
YEAR_S = 365 * 86_400


def kind(number):
    """What becomes of the n-th stored message: `unread`, `elsewhere` or `later`."""
    return ("unread", "unread", "elsewhere", "later")[number % 4]
