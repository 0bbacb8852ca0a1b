-- Up Migration

-- For how many days a workspace keeps what, by data type; what is absent is kept for ever.
ALTER TABLE workspaces ADD COLUMN kept_days jsonb NOT NULL DEFAULT '{}';

-- What was deleted because its time had come: everything of a data type that was accepted before `up_to_ms`. A sweep that is
-- not done was broken off, and is repeated.
CREATE TABLE retention_sweeps (
  workspace_id uuid NOT NULL REFERENCES workspaces ON DELETE CASCADE,
  data_type text NOT NULL,
  up_to_ms bigint NOT NULL,
  rows bigint NOT NULL DEFAULT 0,
  is_done boolean NOT NULL DEFAULT false,
  swept_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (workspace_id, data_type, up_to_ms)
);

-- Down Migration

-- Migrations only go forward: restore a backup to go back.
