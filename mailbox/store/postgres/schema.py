"""
The tables, as numbered steps that only lead forward.

The addresses stand in the collation "C", so that they have one order everywhere
and a prefix is a range.  `act.peak` is the latest time of all acts of its scope
up to that one.  `pieces` holds numbers made of the pieces of three characters
in the folded text, which only saves looking at most rows.

Rules for this file: text alone, so that the steps can be printed where there is
no database.  A step that was published is never changed.
"""

from __future__ import annotations

import re
from typing import Final

from fencepost.mailbox.errors import InvalidName

#: The schema where nobody names one.
SCHEMA: Final = "fencepost"
#: Such a name needs nothing but quotes in SQL.
_NAME: Final = re.compile(r"(?!pg_)[a-z_][a-z0-9_]{0,62}", re.ASCII)

_FIRST: Final = """
CREATE TABLE {s}.meta (
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    generation integer NOT NULL,
    store text NOT NULL,
    key bytea NOT NULL,
    tag integer NOT NULL,
    erasures bigint NOT NULL
);
CREATE SEQUENCE {s}.number MINVALUE 0;
SELECT setval('{s}.number', 0);

CREATE TABLE {s}.event (
    seq bigint PRIMARY KEY,
    batch bigint NOT NULL,
    erasing boolean NOT NULL,
    at text NOT NULL,
    actor text NOT NULL,
    scope text COLLATE "C" NOT NULL,
    stream text COLLATE "C" NOT NULL,
    version bigint NOT NULL,
    type text NOT NULL,
    data bytea,
    key text,
    UNIQUE (scope, stream, version)
);

CREATE TABLE {s}.document (
    id bigint PRIMARY KEY,
    scope text COLLATE "C" NOT NULL,
    path text COLLATE "C" NOT NULL,
    version bigint NOT NULL,
    body text,
    why text,
    conversation text COLLATE "C",
    standing smallint,
    due bigint,
    created bigint,
    ready bigint,
    UNIQUE (scope, path)
);
CREATE INDEX inbox ON {s}.document (scope, conversation, standing, due, created, path) WHERE standing IS NOT NULL;
CREATE INDEX claimed ON {s}.document (scope, conversation, ready, due, created, path) WHERE standing = 3;
CREATE INDEX unsupported ON {s}.document (scope, path) WHERE why IS NOT NULL;

CREATE TABLE {s}.link (
    session text COLLATE "C", scope text COLLATE "C", parent text COLLATE "C", document bigint NOT NULL,
    PRIMARY KEY (session, scope, parent)
);
CREATE INDEX link_of ON {s}.link (document);
CREATE TABLE {s}.sendkey (digest text PRIMARY KEY, document bigint NOT NULL);
CREATE TABLE {s}.reference (
    scope text COLLATE "C", path text COLLATE "C", document bigint, PRIMARY KEY (scope, path, document)
);
CREATE INDEX reference_of ON {s}.reference (document);
CREATE TABLE {s}.seen (session text COLLATE "C", document bigint, PRIMARY KEY (session, document));
CREATE INDEX seen_of ON {s}.seen (document);
CREATE TABLE {s}.about (conversation text COLLATE "C", turn bigint, document bigint,
    PRIMARY KEY (conversation, turn, document));

CREATE TABLE {s}.entry (
    scope text COLLATE "C", path text COLLATE "C", version bigint NOT NULL,
    created text NOT NULL, updated text NOT NULL, redacted boolean NOT NULL,
    PRIMARY KEY (scope, path)
);
CREATE TABLE {s}.act (
    seq bigint PRIMARY KEY, document bigint NOT NULL, scope text COLLATE "C" NOT NULL,
    at bigint NOT NULL, peak bigint NOT NULL, action text NOT NULL, created text NOT NULL
);
CREATE UNIQUE INDEX history ON {s}.act (scope, seq);
CREATE INDEX reached ON {s}.act (scope, peak, seq);
CREATE INDEX act_of ON {s}.act (document);

CREATE TABLE {s}.said (
    seq bigint PRIMARY KEY, scope text COLLATE "C" NOT NULL, stream text COLLATE "C" NOT NULL,
    version bigint NOT NULL, at bigint NOT NULL, actor text NOT NULL, text text NOT NULL, pieces integer[] NOT NULL
);
CREATE INDEX said_pieces ON {s}.said USING gin (pieces);
CREATE INDEX said_by ON {s}.said (scope, stream);
CREATE INDEX turns ON {s}.said (at DESC, scope DESC, version DESC) WHERE stream = '/turns';
CREATE TABLE {s}.noted (LIKE {s}.said);
ALTER TABLE {s}.noted ADD PRIMARY KEY (seq);
CREATE INDEX noted_pieces ON {s}.noted USING gin (pieces);
CREATE INDEX noted_by ON {s}.noted (scope, stream);

-- What the planner samples would outlive an erasure.
ALTER TABLE {s}.event ALTER data SET STATISTICS 0;
ALTER TABLE {s}.document ALTER body SET STATISTICS 0, ALTER why SET STATISTICS 0;
ALTER TABLE {s}.link ALTER session SET STATISTICS 0, ALTER parent SET STATISTICS 0;
ALTER TABLE {s}.seen ALTER session SET STATISTICS 0;
ALTER TABLE {s}.reference ALTER scope SET STATISTICS 0, ALTER path SET STATISTICS 0;
ALTER TABLE {s}.said ALTER text SET STATISTICS 0, ALTER pieces SET STATISTICS 0;
ALTER TABLE {s}.noted ALTER text SET STATISTICS 0, ALTER pieces SET STATISTICS 0;

INSERT INTO {s}.meta (generation, store, key, tag, erasures)
    SELECT 1, gen_random_uuid()::text,
        decode(replace(gen_random_uuid()::text || gen_random_uuid()::text, '-', ''), 'hex'),
        1 + ('x' || left(replace(gen_random_uuid()::text, '-', ''), 7))::bit(28)::integer, 0;
"""
#: What leads from one generation to the next; the first from nothing.
STEPS: Final = (_FIRST,)
#: The layout that this version knows.
GENERATION: Final = len(STEPS)


def checked(schema: str) -> str:
    """
    The name of a schema, which needs nothing but quotes.

    Raises:
        InvalidName: It is none.
    """
    if not _NAME.fullmatch(schema):
        rule = "1 to 63 lower-case letters, digits and underscores that begin with no digit, and not with pg_"
        raise InvalidName(field="schema", value=schema[:200], rule=rule)
    return schema


def quoted(schema: str) -> str:
    """The name as SQL has it: a word of its grammar is a name all the same."""
    return f'"{schema}"'


def named(statement: str, schema: str) -> str:
    """A statement, or several, with the schema in its place."""
    return statement.replace("{s}", quoted(schema))


def step(number: int, schema: str) -> str:
    """What leads to a generation from the one before."""
    done = "" if number == 1 else f"UPDATE {{s}}.meta SET generation = {number};\n"
    return named(STEPS[number - 1] + done, schema)


def ddl(schema: str) -> str:
    """Everything that makes a store, as a script."""
    steps = "".join(f"\n-- to generation {number}{step(number, schema)}" for number in range(1, GENERATION + 1))
    return f"BEGIN;\nCREATE SCHEMA IF NOT EXISTS {quoted(schema)};\n{steps}COMMIT;\n"
