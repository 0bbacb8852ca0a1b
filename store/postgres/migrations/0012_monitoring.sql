-- Up Migration

-- Models that report from production. They come into being with their first event.
CREATE TABLE monitored_models (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  workspace_id uuid NOT NULL REFERENCES workspaces ON DELETE CASCADE,
  name text NOT NULL,
  created_at_ms bigint NOT NULL,
  UNIQUE (workspace_id, name)
);
