-- Up Migration

-- Saved filters on the events of a monitored model. The name of the model, for a segment may be there before the model is.
CREATE TABLE segments (
  id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
  workspace_id uuid NOT NULL REFERENCES workspaces ON DELETE CASCADE,
  model_name text NOT NULL,
  name text NOT NULL,
  -- As requests have them.
  filters jsonb NOT NULL,
  user_name text NOT NULL,
  created_at_ms bigint NOT NULL
);
-- Names of models may be longer than an index takes.
CREATE UNIQUE INDEX ON segments (workspace_id, md5(model_name), name);

-- The drift of all features in one window of time: stored once all of its events are in rollups, so that a map of many windows
-- reads none of them again.
CREATE TABLE drift_windows (
  model_id bigint NOT NULL REFERENCES monitored_models ON DELETE CASCADE,
  data_set_id bigint NOT NULL REFERENCES monitored_models ON DELETE CASCADE,
  -- Empty for all versions, else an equals sign and the version.
  version text NOT NULL,
  from_ms bigint NOT NULL,
  to_ms bigint NOT NULL,
  -- What it was made of: it is void when the rollups of the window, or the reference, are others.
  made_of text NOT NULL,
  events bigint NOT NULL,
  -- JSON.
  features text NOT NULL,
  made_at_ms bigint NOT NULL,
  PRIMARY KEY (model_id, data_set_id, version, from_ms, to_ms)
);
CREATE INDEX ON drift_windows (made_at_ms);

-- Down Migration

-- Migrations only go forward: restore a backup to go back.
