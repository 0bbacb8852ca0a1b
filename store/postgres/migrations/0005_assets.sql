-- Up Migration

-- What an experiment keeps files of. The bytes are in the object store, or, of a remote asset, wherever its link says.
CREATE TABLE assets (
  experiment_id bigint NOT NULL REFERENCES experiments ON DELETE CASCADE,
  id text NOT NULL,
  -- In the order they came.
  place bigint GENERATED ALWAYS AS IDENTITY,
  file_name text NOT NULL,
  type text NOT NULL,
  content_type text NOT NULL,
  size bigint NOT NULL,
  sha256 text,
  object_key text UNIQUE,
  link text,
  step bigint,
  epoch bigint,
  context text,
  source text,
  -- As it was sent, to the byte.
  metadata text,
  tags text[] NOT NULL DEFAULT '{}',
  grouping_name text,
  artifact_version_id text,
  created_at_ms bigint NOT NULL,
  PRIMARY KEY (experiment_id, id),
  CHECK (num_nonnulls(object_key, link) = 1),
  CHECK ((object_key IS NULL) = (sha256 IS NULL))
);
CREATE INDEX ON assets (experiment_id, file_name);
CREATE INDEX ON assets (experiment_id, type);

-- Files of type model-element, by the name they were grouped under.
CREATE TABLE experiment_models (
  id text PRIMARY KEY DEFAULT replace(gen_random_uuid()::text, '-', ''),
  experiment_id bigint NOT NULL REFERENCES experiments ON DELETE CASCADE,
  name text NOT NULL,
  UNIQUE (experiment_id, name)
);

-- Objects that no asset refers to: of uploads under way, and of assets that are gone. After their time they are freed, so
-- that a killed process and a store that was away leave nothing behind for good.
CREATE TABLE loose_objects (
  object_key text PRIMARY KEY,
  free_after timestamptz NOT NULL
);
CREATE INDEX ON loose_objects (free_after);

-- However an asset goes: by itself, with its experiment, or with the whole project.
CREATE FUNCTION loosen_object() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO loose_objects (object_key, free_after) VALUES (OLD.object_key, now()) ON CONFLICT DO NOTHING;
  RETURN NULL;
END $$;
CREATE TRIGGER loosen_object AFTER DELETE ON assets
  FOR EACH ROW WHEN (OLD.object_key IS NOT NULL) EXECUTE FUNCTION loosen_object();

-- Down Migration

-- Migrations only go forward: restore a backup to go back.
