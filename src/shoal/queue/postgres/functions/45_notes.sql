-- Notes. A writer first locks their stripes of the topic, in one order; a fenced claim shares the lock of its note until it has committed.
-- So no lease is created from an old plan once a new one can be read. Advisory locks, because they are granted in order: a row lock that a busy fleet
-- shares is never free for a writer.

CREATE OR REPLACE FUNCTION shoal.lock_notes(p_topic text, p_places bytea[]) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_advisory_xact_lock(hashtext('shoal.note ' || p_topic), s.stripe)
    FROM (SELECT DISTINCT get_byte(place, 0) AS stripe FROM unnest(p_places) AS place ORDER BY 1) s;
END $$;

-- Whether a note still has this stamp; this holds until the caller's transaction ends.
CREATE OR REPLACE FUNCTION shoal.note_stands(p_topic text, p_place bytea, p_stamp bigint) RETURNS boolean
LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan AS $$
BEGIN
    PERFORM pg_advisory_xact_lock_shared(hashtext('shoal.note ' || p_topic), get_byte(p_place, 0));
    RETURN EXISTS (
        SELECT FROM shoal.note n
        WHERE n.topic = p_topic AND n.place = p_place AND n.stamp = p_stamp AND (n.expires_at IS NULL OR n.expires_at > clock_timestamp())
    );
END $$;

-- Remove a batch of expired notes; no query returns them any more. Returns their number.
CREATE OR REPLACE FUNCTION shoal.fade(p_limit int) RETURNS int
LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan SET enable_seqscan = off AS $$
DECLARE
    old tid[];
BEGIN
    SELECT array_agg(n.ctid) INTO old FROM (
        SELECT ctid FROM shoal.note WHERE expires_at <= clock_timestamp() ORDER BY expires_at LIMIT p_limit FOR UPDATE SKIP LOCKED
    ) n;
    DELETE FROM shoal.note WHERE ctid = ANY (old);
    RETURN coalesce(cardinality(old), 0);
END $$;

CREATE OR REPLACE FUNCTION shoal.put_notes(p_topic text, p_places bytea[], p_keys text[], p_values bytea[], p_stamp bigint, p_ttl interval) RETURNS void
LANGUAGE sql AS $$
    INSERT INTO shoal.note (topic, place, key, stamp, written_at, expires_at, size, value)
    SELECT p_topic, n.place, n.key, p_stamp, clock_timestamp(), clock_timestamp() + p_ttl, octet_length(n.value), n.value
    FROM unnest(p_places, p_keys, p_values) AS n(place, key, value)
    ORDER BY n.place
    ON CONFLICT (topic, place) DO UPDATE SET
        stamp = excluded.stamp, written_at = excluded.written_at, expires_at = excluded.expires_at, size = excluded.size, value = excluded.value
$$;

CREATE OR REPLACE FUNCTION shoal.write_notes(
    p_call uuid, p_again boolean, p_topic text, p_stamp bigint, p_ttl interval,
    p_places bytea[], p_keys text[], p_values bytea[], p_gone bytea[]
) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    earlier_result bigint[] := shoal.answered(p_call, p_again);
BEGIN
    IF earlier_result IS NOT NULL THEN
        RETURN;
    END IF;
    PERFORM shoal.lock_notes(p_topic, p_places || p_gone);
    PERFORM shoal.put_notes(p_topic, p_places, p_keys, p_values, p_stamp, p_ttl);
    DELETE FROM shoal.note n WHERE n.topic = p_topic AND n.place = ANY (p_gone);
    INSERT INTO shoal.receipt VALUES (p_call, clock_timestamp(), ARRAY[1]);
    PERFORM shoal.fade(100);
END $$;

-- Write or remove (p_value NULL) a note that has the stamp p_old, NULL for one that does not exist. Returns whether it had.
CREATE OR REPLACE FUNCTION shoal.swap_note(
    p_call uuid, p_again boolean, p_topic text, p_place bytea, p_key text, p_value bytea, p_old bigint, p_stamp bigint, p_ttl interval
) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
    earlier_result  bigint[] := shoal.answered(p_call, p_again);
    found bigint;
BEGIN
    IF earlier_result IS NOT NULL THEN
        RETURN true;
    END IF;
    PERFORM shoal.lock_notes(p_topic, ARRAY[p_place]);
    SELECT n.stamp INTO found FROM shoal.note n
    WHERE n.topic = p_topic AND n.place = p_place AND (n.expires_at IS NULL OR n.expires_at > clock_timestamp());
    IF found IS DISTINCT FROM p_old THEN
        RETURN false;
    END IF;
    IF p_value IS NULL THEN
        DELETE FROM shoal.note n WHERE n.topic = p_topic AND n.place = p_place;
    ELSE
        PERFORM shoal.put_notes(p_topic, ARRAY[p_place], ARRAY[p_key], ARRAY[p_value], p_stamp, p_ttl);
    END IF;
    INSERT INTO shoal.receipt VALUES (p_call, clock_timestamp(), ARRAY[1]);
    PERFORM shoal.fade(100);
    RETURN true;
END $$;

-- Remove the oldest notes of a topic. The newest stay as long as their values fit; the sum never decreases, so all after the first that does not fit are removed.
-- A note that is being written is skipped, and so is one that has been written since.
CREATE OR REPLACE FUNCTION shoal.trim_notes(p_call uuid, p_again boolean, p_topic text, p_max bigint) RETURNS int
LANGUAGE plpgsql AS $$
DECLARE
    earlier_result bigint[] := shoal.answered(p_call, p_again);
    old  bytea[];
BEGIN
    IF earlier_result IS NOT NULL THEN
        RETURN earlier_result[1];
    END IF;
    old := ARRAY(
        SELECT n.place FROM shoal.note n
        JOIN (
            SELECT place, stamp, sum(size) OVER (ORDER BY written_at DESC, place ROWS UNBOUNDED PRECEDING) AS kept
            FROM shoal.note WHERE topic = p_topic AND (expires_at IS NULL OR expires_at > clock_timestamp())
        ) aged ON aged.place = n.place AND aged.stamp = n.stamp
        WHERE n.topic = p_topic AND aged.kept > p_max
        FOR UPDATE OF n SKIP LOCKED
    );
    DELETE FROM shoal.note n WHERE n.topic = p_topic AND n.place = ANY (old);
    INSERT INTO shoal.receipt VALUES (p_call, clock_timestamp(), ARRAY[cardinality(old)]);
    PERFORM shoal.fade(1000);
    RETURN cardinality(old);
END $$;
