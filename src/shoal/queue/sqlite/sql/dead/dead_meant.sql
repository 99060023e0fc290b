-- The dead letters among :numbers that meet every given condition, as [number, run, lane, section, place].
-- A :host without a port matches the host on every port.
SELECT json_group_array(json_array(dead.no, dead.run, lane.id, lane.section, (9 - task.priority) << 52 | task.seq))
FROM json_each(:numbers) n CROSS JOIN dead ON dead.no = n.value
CROSS JOIN task ON task.seq = dead.seq
CROSS JOIN lane ON lane.id = task.lane
CROSS JOIN section ON section.id = lane.section
CROSS JOIN host ON host.id = lane.host
WHERE (:step IS NULL OR section.step = :step)
  AND (:partition IS NULL OR section.partition = :partition)
  AND (:host IS NULL OR host.name = lower(:host) OR substr(host.name, 1, length(:host) + 1) = lower(:host) || ':')
  AND (:error IS NULL OR instr(dead.error, :error) > 0)
  AND (:before IS NULL OR dead.buried_at < :before)
  AND (:after IS NULL OR dead.buried_at > :after)
