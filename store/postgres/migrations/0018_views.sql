-- Up Migration

-- Saved views of a project, or of one experiment wherever it is moved to: what a page shows, as the client that drew it wrote it.
CREATE TABLE views (
  id text PRIMARY KEY DEFAULT replace(gen_random_uuid()::text, '-', ''),
  project_id text REFERENCES projects ON DELETE CASCADE,
  experiment_id bigint REFERENCES experiments ON DELETE CASCADE,
  kind text NOT NULL CHECK (kind IN ('dashboard', 'chart')),
  name text NOT NULL,
  user_id uuid NOT NULL REFERENCES users,
  -- A JSON object: the states by their names in requests.
  content text NOT NULL,
  updated_at_ms bigint NOT NULL,
  CHECK ((project_id IS NULL) <> (experiment_id IS NULL))
);
CREATE INDEX ON views (project_id);
CREATE INDEX ON views (experiment_id);

-- Down Migration

-- Migrations only go forward: restore a backup to go back.
