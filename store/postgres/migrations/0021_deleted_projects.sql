-- Up Migration

-- A deleted project is in no workspace: so its name is free, and whatever looks for a project of a workspace finds none, also
-- in the previous version. `deleted_from` is where it comes back to, until it is purged. What belongs to it stays with it, but
-- for its experiments: they move to another project. That one project is emptied and stays; `deleted_at` tells when.
ALTER TABLE projects
  ALTER workspace_id DROP NOT NULL,
  ADD COLUMN deleted_at timestamptz,
  ADD COLUMN deleted_from uuid REFERENCES workspaces ON DELETE CASCADE,
  ADD CHECK (workspace_id IS NOT NULL OR (deleted_at IS NOT NULL AND deleted_from IS NOT NULL));
CREATE INDEX ON projects (deleted_from);

-- The experiments that come back with a deleted project.
CREATE TABLE experiments_of_deleted_projects (
  experiment_id bigint PRIMARY KEY REFERENCES experiments ON DELETE CASCADE,
  project_id text NOT NULL REFERENCES projects ON DELETE CASCADE
);
CREATE INDEX ON experiments_of_deleted_projects (project_id);

-- Down Migration

-- Migrations only go forward: restore a backup to go back.
