-- Return a batch of leases of a dead worker, as if it had released them, and bury those of the steps `p_once`; only those with tokens up to
-- `p_newest`, so that a worker that continues to claim does not keep its caller here forever. Zero when none is left.
--
-- The table holds live leases only and workers rarely die, so it is scanned: an index on the worker would cost every claim and every extend.
--
-- Leases that another call has locked are skipped, and waited for only when there are no others. A call that waits here has locked no lease yet, so it
-- cannot deadlock; and a lease that was locked only to be extended, or by a call that failed, is not missed.
CREATE OR REPLACE FUNCTION shoal.abandon(
    p_call uuid, p_again boolean, p_worker text, p_newest bigint, p_limit int, p_once text[], p_reason text
) RETURNS int
LANGUAGE plpgsql SET jit = off AS $$
DECLARE
    earlier_result   bigint[] := shoal.answered(p_call, p_again);
    picked bytea[];
    held   record;
    owner  shoal.run;
    ended  record;
    total  int := 0;
    freed  int[];
    host_queues  shoal.host_queues;
BEGIN
    IF earlier_result IS NOT NULL THEN
        RETURN earlier_result[1];
    END IF;
    picked := ARRAY(
        SELECT task FROM shoal.lease WHERE worker = p_worker AND token <= p_newest LIMIT p_limit FOR UPDATE SKIP LOCKED
    );
    IF cardinality(picked) = 0 THEN
        picked := ARRAY(SELECT task FROM shoal.lease WHERE worker = p_worker AND token <= p_newest LIMIT 1 FOR UPDATE);
    END IF;
    FOR held IN
        SELECT l.run, array_agg(l.task) AS tasks, array_agg(l.token) AS tokens,
               array_agg(CASE WHEN s.step = ANY (p_once) THEN 'B' ELSE 'F' END) AS codes,
               array_agg(CASE WHEN s.step = ANY (p_once) THEN p_reason END) AS errors,
               array_agg(0) AS none, array_agg(NULL::interval) AS never
        FROM shoal.lease l LEFT JOIN shoal.step_group s ON s.id = l.step_group
        WHERE l.task = ANY (picked) GROUP BY l.run ORDER BY l.run
    LOOP
        SELECT * INTO owner FROM shoal.run r WHERE r.id = held.run;
        CONTINUE WHEN owner.id IS NULL;  -- purged: `take_back` deletes what it left
        SELECT * INTO ended FROM shoal.finish(owner, held.tasks, held.tokens, held.codes, held.never, held.errors, held.never, held.never, held.none, held.none);
        freed := freed || ended.freed;
        host_queues := shoal.both(host_queues, ended.host_queues);
        total := total + cardinality(ended.accepted);
    END LOOP;
    IF total > 0 THEN
        PERFORM shoal.arm(host_queues);
        PERFORM shoal.wake(freed);
        INSERT INTO shoal.receipt VALUES (p_call, clock_timestamp(), ARRAY[total]);
    END IF;
    RETURN total;
END $$;
