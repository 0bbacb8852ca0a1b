-- Up Migration

-- How often each rule fired lately, and when last.
CREATE INDEX ON alert_firings (rule_id, fired_at_ms);

-- Down Migration

-- Migrations only go forward: restore a backup to go back.
