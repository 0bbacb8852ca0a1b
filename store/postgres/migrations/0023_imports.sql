-- Up Migration

-- Imports of archives. While one is under way its experiments have ids, with rows in ClickHouse, but no row in Postgres: nobody
-- sees them. One that was given up, or not heard of for long, is swept together with those rows. One that is done tells that
-- its archive has been imported.
CREATE TABLE imports (
  id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
  workspace_id uuid NOT NULL REFERENCES workspaces ON DELETE CASCADE,
  archive_id text NOT NULL,
  -- Empty once it is done.
  experiment_ids bigint[] NOT NULL,
  seen_at timestamptz NOT NULL DEFAULT now(),
  is_given_up boolean NOT NULL DEFAULT false,
  -- Set once it is done.
  project_id text REFERENCES projects ON DELETE CASCADE
);
CREATE INDEX ON imports (archive_id);
CREATE INDEX ON imports (project_id);

-- Down Migration

-- Migrations only go forward: restore a backup to go back.
