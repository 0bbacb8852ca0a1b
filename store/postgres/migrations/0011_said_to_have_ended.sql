-- Up Migration

-- When a client last said that its run is over: a sign of life from before that, written a little later, does not count.
ALTER TABLE experiments ADD COLUMN not_alive_at_ms bigint;

-- Down Migration

-- Migrations only go forward: restore a backup to go back.
