-- Up Migration

-- Limits an admin has set, by their names; what is absent is inherited (project from workspace from the settings).
ALTER TABLE workspaces ADD COLUMN limits jsonb NOT NULL DEFAULT '{}';
ALTER TABLE projects ADD COLUMN limits jsonb NOT NULL DEFAULT '{}';
ALTER TABLE api_keys ADD COLUMN limits jsonb NOT NULL DEFAULT '{}';

-- What ingest took and what it refused, per data type. Written every few seconds, so a killed process forgets a little:
-- readers correct `accepted` by what is stored once nothing is on its way.
CREATE TABLE experiment_counters (
  experiment_id bigint NOT NULL REFERENCES experiments ON DELETE CASCADE,
  data_type text NOT NULL,
  accepted bigint NOT NULL DEFAULT 0,
  throttled bigint NOT NULL DEFAULT 0,
  PRIMARY KEY (experiment_id, data_type)
);

-- Why an experiment is throttled, and when it last was.
CREATE TABLE experiment_throttles (
  experiment_id bigint NOT NULL REFERENCES experiments ON DELETE CASCADE,
  reason text NOT NULL,
  last_at_ms bigint NOT NULL,
  PRIMARY KEY (experiment_id, reason)
);

-- Down Migration

-- Migrations only go forward: restore a backup to go back.
