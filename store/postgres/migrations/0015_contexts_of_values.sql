-- Up Migration

-- The context that a parameter or other was logged in; its name begins with it.
ALTER TABLE experiment_values ADD COLUMN context text;

-- Down Migration

-- Migrations only go forward: restore a backup to go back.
