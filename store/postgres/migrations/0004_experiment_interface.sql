-- Up Migration

-- What an experiment keeps one whole text of: html, code and graph as they came, the others as JSON.
CREATE TABLE experiment_documents (
  experiment_id bigint NOT NULL REFERENCES experiments ON DELETE CASCADE,
  kind text NOT NULL CHECK (kind IN ('html', 'code', 'graph', 'git', 'system', 'cloud', 'dependencies')),
  content text NOT NULL,
  PRIMARY KEY (experiment_id, kind)
);

-- A deleted experiment can be restored until it is swept away.
ALTER TABLE experiments
  ADD COLUMN deleted_at timestamptz,
  ADD COLUMN has_crashed boolean,
  ADD COLUMN error text;
CREATE INDEX ON experiments (deleted_at) WHERE deleted_at IS NOT NULL;

ALTER TABLE projects ADD COLUMN notes text NOT NULL DEFAULT '';

-- Whoever has the code may read the project without a key.
CREATE TABLE project_share_links (
  code text PRIMARY KEY,
  project_id text NOT NULL REFERENCES projects ON DELETE CASCADE,
  created_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX ON project_share_links (project_id);

-- An experiment shown in further projects.
CREATE TABLE experiment_symlinks (
  project_id text NOT NULL REFERENCES projects ON DELETE CASCADE,
  experiment_id bigint NOT NULL REFERENCES experiments ON DELETE CASCADE,
  PRIMARY KEY (project_id, experiment_id)
);
CREATE INDEX ON experiment_symlinks (experiment_id);

-- Which view a page opens with.
CREATE TABLE project_default_views (
  project_id text NOT NULL REFERENCES projects ON DELETE CASCADE,
  page text NOT NULL CHECK (page IN ('experiment', 'project')),
  template_id text NOT NULL,
  PRIMARY KEY (project_id, page)
);

-- Down Migration

-- Migrations only go forward: restore a backup to go back.
