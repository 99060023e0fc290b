-- :treatments = [[host, paused until or null, delay or null], ...]; a pause is never made shorter.
UPDATE host SET
    paused_until = max(paused_until, ifnull(t.value ->> 1, 0)), delay = ifnull(t.value ->> 2, delay)
FROM json_each(:treatments) t WHERE host.id = t.value ->> 0
