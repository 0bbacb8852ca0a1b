-- Up Migration

-- Models that a workspace has registered, each with versions.
CREATE TABLE registry_models (
  id text PRIMARY KEY DEFAULT replace(gen_random_uuid()::text, '-', ''),
  workspace_id uuid NOT NULL REFERENCES workspaces ON DELETE CASCADE,
  user_id uuid NOT NULL REFERENCES users,
  name text NOT NULL,
  description text NOT NULL,
  is_public boolean NOT NULL,
  notes text NOT NULL DEFAULT '',
  created_at_ms bigint NOT NULL,
  updated_at_ms bigint NOT NULL,
  UNIQUE (workspace_id, name)
);

-- Where a version came from is told, but not referred to: it outlives its experiment.
CREATE TABLE registry_versions (
  id text PRIMARY KEY DEFAULT replace(gen_random_uuid()::text, '-', ''),
  model_id text NOT NULL REFERENCES registry_models ON DELETE CASCADE,
  user_id uuid NOT NULL REFERENCES users,
  version text NOT NULL,
  -- Versions of equal precedence, in the order they came.
  place bigint GENERATED ALWAYS AS IDENTITY,
  -- Sorts as versions do.
  precedence text COLLATE "C" NOT NULL,
  comment text NOT NULL,
  stages text[] NOT NULL,
  experiment_model_id text NOT NULL,
  experiment_model_name text NOT NULL,
  experiment_key text NOT NULL,
  created_at_ms bigint NOT NULL,
  updated_at_ms bigint NOT NULL,
  UNIQUE (model_id, version)
);
CREATE INDEX ON registry_versions (model_id, precedence, place);
CREATE INDEX ON registry_versions (experiment_model_id);

-- The files of a version, as its experiment had them when it was registered: the columns are those of assets.
CREATE TABLE registry_files (
  version_id text NOT NULL REFERENCES registry_versions ON DELETE CASCADE,
  id text NOT NULL,
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
  PRIMARY KEY (version_id, id)
);
CREATE INDEX ON registry_files (object_key);

-- Who changed what. It outlives what it tells of. Ids are in the order in which the changes of one model were made.
CREATE TABLE registry_events (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  workspace_id uuid NOT NULL REFERENCES workspaces ON DELETE CASCADE,
  model_id text NOT NULL,
  model_name text NOT NULL,
  user_name text NOT NULL,
  at_ms bigint NOT NULL,
  action text NOT NULL,
  -- What webhooks call it; null for what they do not tell.
  event text,
  version_id text,
  version text,
  stages text[],
  added_stages text[] NOT NULL,
  removed_stages text[] NOT NULL,
  experiment_model_id text,
  experiment_key text,
  -- What was changed, by the names it has in answers.
  before jsonb NOT NULL,
  after jsonb NOT NULL
);
CREATE INDEX ON registry_events (workspace_id, id);
CREATE INDEX ON registry_events (model_id, id);
CREATE INDEX ON registry_events (workspace_id, model_name) WHERE action = 'MODEL_DELETED';

-- One object may now be referred to by an asset and by several versions. Whoever lets go of it says so, in a row of its
-- own: two who let go at once need not wait for each other. That nobody else refers to it is found out when it is freed.
ALTER TABLE loose_objects DROP CONSTRAINT loose_objects_pkey;
ALTER TABLE loose_objects ADD COLUMN id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY;
CREATE INDEX ON loose_objects (object_key);
CREATE OR REPLACE FUNCTION loosen_object() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO loose_objects (object_key, free_after) VALUES (OLD.object_key, now());
  RETURN NULL;
END $$;
CREATE TRIGGER loosen_object AFTER DELETE ON registry_files
  FOR EACH ROW WHEN (OLD.object_key IS NOT NULL) EXECUTE FUNCTION loosen_object();

-- Down Migration

-- Migrations only go forward: restore a backup to go back.
