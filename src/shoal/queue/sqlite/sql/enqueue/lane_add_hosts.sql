INSERT INTO host (name) SELECT value ->> 2 FROM json_each(:names) WHERE true
ON CONFLICT (name) DO NOTHING
