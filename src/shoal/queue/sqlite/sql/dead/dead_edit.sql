-- A dead letter gets another task; its number, and so its history and its place in the list, stay.
UPDATE task SET id = :id, lane = :lane, priority = :priority, url = :url, key = :key, payload = :payload
WHERE seq = :place & 0xfffffffffffff
