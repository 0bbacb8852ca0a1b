-- Up Migration

-- Those of all workspaces of an organization together: `store/limits.ts` names them.
ALTER TABLE organizations ADD COLUMN limits jsonb NOT NULL DEFAULT '{}';

-- Down Migration

-- Migrations only go forward: restore a backup to go back.
