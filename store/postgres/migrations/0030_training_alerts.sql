-- Up Migration

-- A rule may be on all runs of a project.
ALTER TABLE alert_rules ADD COLUMN project_id text REFERENCES projects ON DELETE CASCADE;
ALTER TABLE alert_rules DROP CONSTRAINT alert_rules_check;
ALTER TABLE alert_rules ADD CONSTRAINT alert_rules_check CHECK (num_nonnulls(model_name, experiment_id, project_id) = 1);
-- The keys of the runs that crossed the threshold in the last window: they fire again only after a window in which they did not.
ALTER TABLE alert_rules ADD COLUMN crossing text[] NOT NULL DEFAULT '{}';
CREATE INDEX ON alert_rules (project_id) WHERE project_id IS NOT NULL;
CREATE INDEX ON alert_rules (experiment_id) WHERE experiment_id IS NOT NULL;

-- Down Migration

-- Migrations only go forward: restore a backup to go back.
