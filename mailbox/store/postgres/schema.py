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
#: What is done most often, where the tables are: an append takes one round trip, and a listing is planned once.
#:
#: `keep` takes rows as objects whose names are those of the columns.  A number below zero stands for one that was not
#: known yet when the row was made: -1 is the first of `numbers`.
#:
#: Plans are kept, and one that reads a whole table while it is small would still do so when it has grown.  So what is
#: looked up stands in a scalar subquery or a loop, never in a join, and no table is read whole.
_SECOND: Final = """
CREATE FUNCTION {s}.keep(numbers bigint[], kept jsonb) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    r record;
BEGIN
    IF kept ? 'event' THEN
        INSERT INTO {s}.event
            SELECT coalesce(numbers[-e.seq], e.seq), coalesce(numbers[-e.batch], e.batch), e.erasing, e.at, e.actor,
                e.scope, e.stream, e.version, e.type, decode(e.data, 'base64'), e.key
            FROM jsonb_to_recordset(kept -> 'event') AS e (seq bigint, batch bigint, erasing boolean, at text,
                actor text, scope text, stream text, version bigint, type text, data text, key text);
    END IF;
    IF kept ? 'document' THEN
        INSERT INTO {s}.document
            SELECT coalesce(numbers[-d.id], d.id), d.scope, d.path, d.version, d.body, d.why, d.conversation,
                d.standing, d.due, d.created, d.ready
            FROM jsonb_to_recordset(kept -> 'document') AS d (id bigint, scope text, path text, version bigint,
                body text, why text, conversation text, standing smallint, due bigint, created bigint, ready bigint)
            ON CONFLICT (id) DO UPDATE SET version = excluded.version, body = excluded.body, why = excluded.why,
                conversation = excluded.conversation, standing = excluded.standing, due = excluded.due,
                created = excluded.created, ready = excluded.ready;
    END IF;
    IF kept ? 'link' THEN
        INSERT INTO {s}.link SELECT l.session, l.scope, l.parent, coalesce(numbers[-l.document], l.document)
            FROM jsonb_to_recordset(kept -> 'link') AS l (session text, scope text, parent text, document bigint)
            ON CONFLICT DO NOTHING;
    END IF;
    IF kept ? 'sendkey' THEN
        INSERT INTO {s}.sendkey SELECT k.digest, coalesce(numbers[-k.document], k.document)
            FROM jsonb_to_recordset(kept -> 'sendkey') AS k (digest text, document bigint) ON CONFLICT DO NOTHING;
    END IF;
    IF kept ? 'reference' THEN
        INSERT INTO {s}.reference SELECT f.scope, f.path, coalesce(numbers[-f.document], f.document)
            FROM jsonb_to_recordset(kept -> 'reference') AS f (scope text, path text, document bigint)
            ON CONFLICT DO NOTHING;
    END IF;
    IF kept ? 'seen' THEN
        INSERT INTO {s}.seen SELECT n.session, coalesce(numbers[-n.document], n.document)
            FROM jsonb_to_recordset(kept -> 'seen') AS n (session text, document bigint) ON CONFLICT DO NOTHING;
    END IF;
    IF kept ? 'about' THEN
        INSERT INTO {s}.about SELECT a.conversation, a.turn, coalesce(numbers[-a.document], a.document)
            FROM jsonb_to_recordset(kept -> 'about') AS a (conversation text, turn bigint, document bigint)
            ON CONFLICT DO NOTHING;
    END IF;
    IF kept ? 'about_at' THEN
        FOR r IN SELECT * FROM jsonb_to_recordset(kept -> 'about_at') AS a (conversation text, turn bigint, scope text,
                path text) LOOP
            INSERT INTO {s}.about SELECT r.conversation, r.turn, d.id FROM {s}.document d
                WHERE d.scope = r.scope AND d.path = r.path ON CONFLICT DO NOTHING;
        END LOOP;
    END IF;
    IF kept ? 'no_entry' THEN
        FOR r IN SELECT * FROM jsonb_to_recordset(kept -> 'no_entry') AS e (scope text, path text) LOOP
            DELETE FROM {s}.entry e WHERE e.scope = r.scope AND e.path = r.path;
        END LOOP;
    END IF;
    IF kept ? 'entry' THEN
        INSERT INTO {s}.entry SELECT e.scope, e.path, e.version, e.created, e.updated, e.redacted
            FROM jsonb_to_recordset(kept -> 'entry') AS e (scope text, path text, version bigint, created text,
                updated text, redacted boolean)
            ON CONFLICT (scope, path) DO UPDATE SET version = excluded.version, created = excluded.created,
                updated = excluded.updated, redacted = excluded.redacted;
    END IF;
    IF kept ? 'act' THEN
        FOR r IN SELECT * FROM jsonb_to_recordset(kept -> 'act') AS a (seq bigint, document bigint, scope text,
                at bigint, action text, created text) LOOP
            INSERT INTO {s}.act SELECT coalesce(numbers[-r.seq], r.seq), coalesce(numbers[-r.document], r.document),
                r.scope, r.at, greatest(r.at, (SELECT a.peak FROM {s}.act a WHERE a.scope = r.scope
                ORDER BY a.seq DESC LIMIT 1)), r.action, r.created;
        END LOOP;
    END IF;
    IF kept ? 'said' THEN
        INSERT INTO {s}.said SELECT coalesce(numbers[-t.seq], t.seq), t.scope, t.stream, t.version, t.at, t.actor,
                t.text, t.pieces::integer[]
            FROM jsonb_to_recordset(kept -> 'said') AS t (seq bigint, scope text, stream text, version bigint,
                at bigint, actor text, text text, pieces text);
    END IF;
    IF kept ? 'noted' THEN
        INSERT INTO {s}.noted SELECT coalesce(numbers[-t.seq], t.seq), t.scope, t.stream, t.version, t.at, t.actor,
                t.text, t.pieces::integer[]
            FROM jsonb_to_recordset(kept -> 'noted') AS t (seq bigint, scope text, stream text, version bigint,
                at bigint, actor text, text text, pieces text);
    END IF;
END $$;

CREATE FUNCTION {s}.append(tag integer, wait_ms integer, scopes integer[], streams integer[], looked bigint, kept jsonb,
    OUT verdict text, OUT erased bigint, OUT heard boolean, OUT in_scope text, OUT at_path text, OUT expected bigint,
    OUT actual bigint) LANGUAGE plpgsql SET enable_seqscan = off SET jit = off
    SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    place integer;
    ignored text;
    before bigint;
    numbers bigint[];
BEGIN
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        verdict := 'level';
        RETURN;
    END IF;
    ignored := set_config('lock_timeout', wait_ms::text, true);
    IF current_setting('synchronous_commit') = 'off' THEN
        ignored := set_config('synchronous_commit', 'on', true);
    END IF;
    FOREACH place IN ARRAY scopes LOOP
        IF streams IS NULL THEN
            ignored := pg_advisory_xact_lock(tag, place)::text;
        ELSE
            ignored := pg_advisory_xact_lock_shared(tag, place)::text;
        END IF;
    END LOOP;
    FOREACH place IN ARRAY coalesce(streams, '{}') LOOP
        ignored := pg_advisory_xact_lock(tag + 3, place)::text;
    END LOOP;

    SELECT m.erasures INTO erased FROM {s}.meta m WHERE m.one;
    IF looked NOT IN (-1, erased) THEN
        verdict := 'erased';
        RETURN;
    END IF;
    SELECT w.scope, w.path, w.version, w.found INTO in_scope, at_path, expected, actual FROM (
        SELECT e.*,
            coalesce((SELECT d.version FROM {s}.document d WHERE d.scope = e.scope AND d.path = e.path), 0) AS found
        FROM jsonb_to_recordset(kept -> 'expect') AS e (scope text, path text, version bigint) OFFSET 0
    ) w WHERE w.found <> w.version LIMIT 1;
    IF FOUND THEN
        verdict := 'version';
        RETURN;
    END IF;
    IF kept ? 'sendkey' AND EXISTS (
        SELECT FROM jsonb_to_recordset(kept -> 'sendkey') AS u (digest text)
        WHERE (SELECT k.document FROM {s}.sendkey k WHERE k.digest = u.digest) IS NOT NULL
    ) THEN
        verdict := 'key';
        RETURN;
    END IF;

    SELECT n.last_value INTO before FROM {s}.number n;
    ignored := pg_advisory_xact_lock_shared(tag + 1, before::bit(32)::integer)::text;
    FOR n IN 1..jsonb_array_length(kept -> 'event') LOOP
        numbers[n] := nextval('{s}.number');
    END LOOP;
    ignored := pg_advisory_xact_lock_shared(tag + 2, (numbers[1] - 1)::bit(32)::integer)::text;
    ignored := {s}.keep(numbers, kept)::text;

    heard := NOT pg_try_advisory_lock(tag + 4, 0);
    IF NOT heard THEN
        ignored := pg_advisory_unlock(tag + 4, 0)::text;
    END IF;
    verdict := 'done';
END $$;

CREATE FUNCTION {s}.inbox(standings smallint[], after bigint, until bigint, lapsed bigint, asker text, links text[],
    scopes text[], most integer, long bigint)
    RETURNS TABLE (version bigint, body text, scope text, path text, why text) LANGUAGE plpgsql STABLE
    SET enable_seqscan = off SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE
    heard text[] := '{""}';
BEGIN
    IF asker IS NOT NULL THEN
        heard := heard || array(
            WITH RECURSIVE audience (name) AS (SELECT asker COLLATE "C" UNION
                SELECT l.parent FROM {s}.link l JOIN audience a ON l.session = a.name WHERE l.scope = ANY (links))
            SELECT a.name FROM audience a
        );
    END IF;
    RETURN QUERY SELECT c.version, c.body, NULL, NULL, NULL FROM (SELECT i.*, sum(octet_length(i.body))
        OVER (ORDER BY i.due, i.created, i.path ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS length
        FROM (SELECT e.* FROM (
        SELECT p.* FROM unnest(scopes) AS r (scope) CROSS JOIN unnest(heard) AS h (name)
            CROSS JOIN unnest(standings) AS o (standing) CROSS JOIN LATERAL (
                SELECT d.due, d.created, d.path, d.version, d.body FROM {s}.document d
                WHERE d.scope = r.scope AND d.conversation = h.name AND d.standing = o.standing
                    AND d.due > after AND d.due <= until
                ORDER BY d.due, d.created, d.path LIMIT most
            ) p
        UNION ALL
        SELECT p.* FROM unnest(scopes) AS r (scope) CROSS JOIN unnest(heard) AS h (name) CROSS JOIN LATERAL (
                SELECT d.due, d.created, d.path, d.version, d.body FROM {s}.document d
                WHERE d.scope = r.scope AND d.conversation = h.name AND d.standing = 3 AND d.ready <= lapsed
                ORDER BY d.due, d.created, d.path LIMIT most
            ) p
    ) e ORDER BY e.due, e.created, e.path LIMIT most) i) c
        WHERE long IS NULL OR coalesce(c.length, 0) < long ORDER BY c.due, c.created, c.path;
    RETURN QUERY SELECT u.version, NULL, u.scope, u.path, u.why
        FROM unnest(scopes) WITH ORDINALITY AS r (scope, place) CROSS JOIN LATERAL (
            SELECT d.scope, d.path, d.version, d.why FROM {s}.document d
            WHERE d.scope = r.scope AND d.why IS NOT NULL AND d.path >= 'message-links/' AND d.path < 'messages0'
                AND (d.path < 'message-links0' OR d.path >= 'messages/') -- one range, and "0" follows "/"
            ORDER BY d.path LIMIT most
        ) u ORDER BY r.place, u.path LIMIT most;
END $$;
"""
#: What leads from one generation to the next; the first from nothing.
STEPS: Final = (_FIRST, _SECOND)
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
