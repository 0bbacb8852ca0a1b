-- Up Migration

-- What clients of MLflow tell of projects and runs that others have no word for.
ALTER TABLE projects ADD COLUMN artifact_location text;
-- They send no keep-alive: a run goes on until they say otherwise.
ALTER TABLE experiments ADD COLUMN reported_status text CHECK (reported_status IN ('RUNNING', 'SCHEDULED'));

CREATE TABLE project_tags (
  project_id text NOT NULL REFERENCES projects ON DELETE CASCADE,
  key text NOT NULL,
  value text NOT NULL,
  PRIMARY KEY (project_id, key)
);

-- The data that runs read.
CREATE TABLE run_datasets (
  experiment_id bigint NOT NULL REFERENCES experiments ON DELETE CASCADE,
  name text NOT NULL,
  digest text NOT NULL,
  source_type text NOT NULL,
  source text NOT NULL,
  schema text,
  profile text,
  -- Keys and values, as JSON.
  tags text NOT NULL,
  PRIMARY KEY (experiment_id, name, digest)
);

-- Its files are the assets of its experiment that are grouped under `grouping_name`. A model that no run made has an experiment of
-- its own.
CREATE TABLE logged_models (
  id text PRIMARY KEY,
  experiment_id bigint NOT NULL REFERENCES experiments ON DELETE CASCADE,
  name text NOT NULL,
  grouping_name text NOT NULL,
  model_type text,
  is_of_run boolean NOT NULL,
  status text NOT NULL,
  -- Keys and values, as JSON.
  params text NOT NULL,
  tags text NOT NULL,
  created_at_ms bigint NOT NULL,
  updated_at_ms bigint NOT NULL,
  deleted_at timestamptz
);
CREATE INDEX ON logged_models (experiment_id);

-- The last value of each metric that a run measured of a model.
CREATE TABLE logged_model_metrics (
  model_id text NOT NULL REFERENCES logged_models ON DELETE CASCADE,
  experiment_id bigint NOT NULL REFERENCES experiments ON DELETE CASCADE,
  name text NOT NULL,
  dataset_name text NOT NULL,
  dataset_digest text NOT NULL,
  value float8 NOT NULL,
  step bigint NOT NULL,
  timestamp_ms bigint NOT NULL,
  PRIMARY KEY (model_id, experiment_id, name, dataset_name, dataset_digest)
);
CREATE INDEX ON logged_model_metrics (experiment_id);

-- The models that a run read or made.
CREATE TABLE run_models (
  experiment_id bigint NOT NULL REFERENCES experiments ON DELETE CASCADE,
  model_id text NOT NULL,
  is_output boolean NOT NULL,
  step bigint NOT NULL DEFAULT 0,
  PRIMARY KEY (experiment_id, model_id, is_output)
);

-- Down Migration

-- Migrations only go forward: restore a backup to go back.
