-- :starts = [[host, last start], ...]
UPDATE host SET last_start = s.value ->> 1, last_delay = CASE host.id WHEN 0 THEN 0 ELSE :host_delay END
FROM json_each(:starts) s WHERE host.id = s.value ->> 0
