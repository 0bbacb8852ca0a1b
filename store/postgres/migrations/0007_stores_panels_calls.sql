-- Up Migration

-- What a visualization keeps for itself in a project: the whole of it, as JSON text.
CREATE TABLE viz_stores (
  project_id text NOT NULL REFERENCES projects ON DELETE CASCADE,
  instance_id text NOT NULL,
  content text NOT NULL,
  PRIMARY KEY (project_id, instance_id)
);

-- Panels of a workspace: zip files, of which the bytes are in the object store.
CREATE TABLE panels (
  id text PRIMARY KEY DEFAULT replace(gen_random_uuid()::text, '-', ''),
  workspace_id uuid NOT NULL REFERENCES workspaces ON DELETE CASCADE,
  -- In the order they came.
  place bigint GENERATED ALWAYS AS IDENTITY,
  -- Who uploaded what it holds now.
  user_id uuid NOT NULL REFERENCES users,
  file_name text NOT NULL,
  size bigint NOT NULL,
  sha256 text NOT NULL,
  object_key text NOT NULL UNIQUE,
  created_at_ms bigint NOT NULL,
  updated_at_ms bigint NOT NULL
);
CREATE INDEX ON panels (workspace_id, place);

-- However its bytes go: with the panel, with its workspace, or because others took their place.
CREATE TRIGGER loosen_object AFTER DELETE ON panels FOR EACH ROW EXECUTE FUNCTION loosen_object();
CREATE TRIGGER loosen_replaced_object AFTER UPDATE OF object_key ON panels
  FOR EACH ROW WHEN (OLD.object_key <> NEW.object_key) EXECUTE FUNCTION loosen_object();

-- Calls of methods on a running experiment. Arguments and results are JSON text; one without an end is pending.
CREATE TABLE experiment_calls (
  id text PRIMARY KEY DEFAULT replace(gen_random_uuid()::text, '-', ''),
  experiment_id bigint NOT NULL REFERENCES experiments ON DELETE CASCADE,
  -- In the order they were sent.
  place bigint GENERATED ALWAYS AS IDENTITY,
  method text NOT NULL,
  arguments text NOT NULL,
  result text,
  error text,
  created_at_ms bigint NOT NULL,
  finished_at_ms bigint
);
CREATE INDEX ON experiment_calls (experiment_id, place) WHERE finished_at_ms IS NULL;
CREATE INDEX ON experiment_calls (experiment_id, place) WHERE finished_at_ms IS NOT NULL;

-- Down Migration

-- Migrations only go forward: restore a backup to go back.
