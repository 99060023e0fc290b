-- The server's clock was set back, or a standby whose clock is behind was promoted: gaps of hosts, delays, pauses and leases would last as much longer, and
-- runs would stand still. So what was stored before is moved back too. Returns by how much the clock was set back, 0 for less than ten seconds.
--
-- Receipts tell: one that is as old as it can be was stored just now. What lies further ahead than the clock was set back was stored before it; an expiry
-- may come later, and stays. Host queues only say when to look at a host.
--
-- The tables are locked, in the order of a claim, so that nothing is written by the old times meanwhile; in a deadlock one of the two calls is repeated.

CREATE OR REPLACE FUNCTION shoal.clock_set_back() RETURNS interval
LANGUAGE sql AS $$
    SELECT CASE WHEN at > clock_timestamp() + interval '10 seconds' THEN at - clock_timestamp() ELSE interval '0' END
    FROM (SELECT coalesce((SELECT at FROM shoal.receipt ORDER BY at DESC LIMIT 1), '-infinity') AS at) newest
$$;

CREATE OR REPLACE FUNCTION shoal.follow_clock() RETURNS interval
LANGUAGE plpgsql AS $$
DECLARE
    back    interval := shoal.clock_set_back();
    ts      timestamptz;
    ahead   timestamptz;
BEGIN
    IF back = interval '0' THEN
        RETURN back;
    END IF;
    LOCK TABLE shoal.bundle, shoal.lease, shoal.delayed, shoal.host, shoal.host_queue, shoal.note, shoal.worker, shoal.receipt IN SHARE ROW EXCLUSIVE MODE;
    back := shoal.clock_set_back();  -- another call may have been faster
    IF back = interval '0' THEN
        RETURN back;
    END IF;
    ts := clock_timestamp();
    ahead := ts + back - interval '5 seconds';
    UPDATE shoal.host SET last_at = last_at - back, earlier_at = ARRAY(SELECT one - back FROM unnest(earlier_at) WITH ORDINALITY AS e(one, turn) ORDER BY turn)
    WHERE last_at > ts + interval '5 seconds';
    UPDATE shoal.host SET paused_until = paused_until - back WHERE paused_until > ahead AND paused_until < 'infinity';
    UPDATE shoal.host_queue SET due_at = due_at - back WHERE due_at > ts + interval '5 seconds' AND due_at < 'infinity';
    UPDATE shoal.lease SET start_at = start_at - back, deadline = deadline - back WHERE deadline > ahead;
    UPDATE shoal.delayed SET due_at = due_at - back WHERE due_at > ahead AND due_at < 'infinity';
    UPDATE shoal.note SET written_at = written_at - back, expires_at = expires_at - back WHERE written_at > ts;
    UPDATE shoal.worker SET beat_at = beat_at - back WHERE beat_at > ts;
    UPDATE shoal.timeline SET since = since - back WHERE since > ts;
    UPDATE shoal.receipt SET at = at - back WHERE at > ts;
    RETURN back;
END $$;
