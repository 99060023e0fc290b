-- Calls that make lanes due write only those that they have locked in order (see 20_lanes.sql). The tables stay as they are.
SELECT;
