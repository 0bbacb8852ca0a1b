-- Up Migration

-- A version has one status beside its stages, and metadata: names and values of any kind, as JSON.
ALTER TABLE registry_versions
  ADD COLUMN status text NOT NULL DEFAULT 'None',
  ADD COLUMN metadata text NOT NULL DEFAULT '[]',
  -- A change of the status as it was asked for: {status, isReviewRequired, statusConfiguration, comment}.
  ADD COLUMN status_configuration jsonb;

-- The statuses that versions of a workspace may have.
ALTER TABLE workspaces ADD COLUMN registry_statuses text[] NOT NULL
  DEFAULT '{None,Development,Staging,QA,Production,Archived}';

-- Down Migration

-- Migrations only go forward: restore a backup to go back.
