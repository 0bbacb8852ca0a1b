-- Up Migration

-- Which registered versions were made from a run.
CREATE INDEX ON registry_versions (experiment_key);

-- Down Migration

-- Migrations only go forward: restore a backup to go back.
