-- Up Migration

-- An archived project is hidden from lists for people. Programs read it and log to it as before.
ALTER TABLE projects ADD COLUMN archived boolean NOT NULL DEFAULT false;

-- Down Migration

-- Migrations only go forward: restore a backup to go back.
