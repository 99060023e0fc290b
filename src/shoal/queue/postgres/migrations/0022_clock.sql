-- Functions only: what was stored before the server's clock was set back follows it (see 49_clock.sql).
SELECT;
