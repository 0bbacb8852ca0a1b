-- Up Migration

CREATE TABLE artifacts (
  id text PRIMARY KEY DEFAULT gen_random_uuid()::text,
  workspace_id uuid NOT NULL REFERENCES workspaces ON DELETE CASCADE,
  -- Where it began; both may be gone.
  project_id text REFERENCES projects ON DELETE SET NULL,
  experiment_key text NOT NULL,
  owner_id uuid NOT NULL REFERENCES users,
  name text NOT NULL,
  type text NOT NULL,
  is_public boolean NOT NULL,
  description text,
  -- As it was sent, to the byte; so is that of versions.
  metadata text,
  tags text[] NOT NULL DEFAULT '{}',
  created_at timestamptz NOT NULL DEFAULT now(),
  UNIQUE (workspace_id, name)
);

-- A deleted version stays as a row, so that its number is not given to something else.
CREATE TABLE artifact_versions (
  id text PRIMARY KEY DEFAULT gen_random_uuid()::text,
  artifact_id text NOT NULL REFERENCES artifacts ON DELETE CASCADE,
  -- In the order they were opened.
  place bigint GENERATED ALWAYS AS IDENTITY,
  version text NOT NULL,
  state text NOT NULL DEFAULT 'OPEN' CHECK (state IN ('OPEN', 'CLOSED', 'ERROR')),
  experiment_id bigint REFERENCES experiments ON DELETE SET NULL,
  experiment_key text NOT NULL,
  owner_id uuid NOT NULL REFERENCES users,
  metadata text,
  tags text[] NOT NULL DEFAULT '{}',
  created_at_ms bigint NOT NULL,
  deleted_at timestamptz,
  UNIQUE (artifact_id, version)
);
CREATE INDEX ON artifact_versions (artifact_id, place);
CREATE INDEX ON artifact_versions (experiment_id);

-- An alias has one holder among closed versions. An open one takes its aliases over when it is closed.
CREATE TABLE artifact_aliases (
  artifact_version_id text NOT NULL REFERENCES artifact_versions ON DELETE CASCADE,
  alias text NOT NULL,
  PRIMARY KEY (artifact_version_id, alias)
);

-- Which experiments have used a version.
CREATE TABLE artifact_consumers (
  artifact_version_id text NOT NULL REFERENCES artifact_versions ON DELETE CASCADE,
  experiment_id bigint NOT NULL REFERENCES experiments ON DELETE CASCADE,
  first_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (artifact_version_id, experiment_id)
);
CREATE INDEX ON artifact_consumers (experiment_id);

-- The files of closed versions, which outlive the experiment that made them. Those of open ones are assets only.
CREATE TABLE artifact_files (
  artifact_version_id text NOT NULL REFERENCES artifact_versions ON DELETE CASCADE,
  asset_id text NOT NULL,
  place bigint NOT NULL,
  file_name text NOT NULL,
  type text NOT NULL,
  content_type text NOT NULL,
  size bigint NOT NULL,
  sha256 text,
  object_key text,
  link text,
  step bigint,
  context text,
  metadata text,
  tags text[] NOT NULL,
  grouping_name text,
  created_at_ms bigint NOT NULL,
  PRIMARY KEY (artifact_version_id, asset_id)
);
CREATE INDEX ON artifact_files (object_key);

-- Until now any text was taken for the id of a version, of which there was none.
UPDATE assets SET artifact_version_id = NULL;
ALTER TABLE assets ADD FOREIGN KEY (artifact_version_id) REFERENCES artifact_versions ON DELETE CASCADE;
CREATE INDEX ON assets (artifact_version_id) WHERE artifact_version_id IS NOT NULL;

CREATE TRIGGER loosen_object AFTER DELETE ON artifact_files
  FOR EACH ROW WHEN (OLD.object_key IS NOT NULL) EXECUTE FUNCTION loosen_object();

-- Down Migration

-- Migrations only go forward: restore a backup to go back.
