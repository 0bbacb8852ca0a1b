-- Up Migration

-- Until when each user has seen what happened.
CREATE TABLE notification_visits (
  user_id uuid PRIMARY KEY REFERENCES users ON DELETE CASCADE,
  seen_to_ms bigint NOT NULL
);
CREATE INDEX ON experiments (user_id, start_time_ms);
CREATE INDEX ON alert_firings (fired_at_ms);

-- Down Migration

-- Migrations only go forward: restore a backup to go back.
