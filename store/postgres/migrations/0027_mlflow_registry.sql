-- Up Migration

CREATE TABLE registry_model_tags (
  model_id text NOT NULL REFERENCES registry_models ON DELETE CASCADE,
  key text NOT NULL,
  value text NOT NULL,
  PRIMARY KEY (model_id, key)
);

-- Names that move from version to version.
CREATE TABLE registry_aliases (
  model_id text NOT NULL REFERENCES registry_models ON DELETE CASCADE,
  alias text NOT NULL,
  version_id text NOT NULL REFERENCES registry_versions ON DELETE CASCADE,
  PRIMARY KEY (model_id, alias)
);
CREATE INDEX ON registry_aliases (version_id);

-- Where a client of MLflow said that a version came from; null for versions that others registered.
ALTER TABLE registry_versions
  ADD COLUMN source text,
  ADD COLUMN source_run text,
  ADD COLUMN run_link text,
  ADD COLUMN logged_model_id text;
CREATE INDEX ON registry_versions (logged_model_id);

-- Down Migration

-- Migrations only go forward: restore a backup to go back.
