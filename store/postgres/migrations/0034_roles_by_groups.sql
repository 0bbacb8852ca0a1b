-- Up Migration

-- Groups give the role of an auditor too.
ALTER TABLE users RENAME COLUMN is_admin_by_groups TO is_role_by_groups;

-- Down Migration

-- Migrations only go forward: restore a backup to go back.
