-- Up Migration

-- Pages of the audit log, the newest first, by each filter. `store/postgres/accounts/audit.ts` has the same expression.
CREATE INDEX audit_log_by_time ON audit_log (organization_id, at DESC, id DESC);
CREATE INDEX audit_log_by_actor ON audit_log (organization_id, actor, at DESC, id DESC);
CREATE INDEX audit_log_by_actor_and_act ON audit_log (organization_id, actor, act, at DESC, id DESC);
CREATE INDEX audit_log_by_act ON audit_log (organization_id, act, at DESC, id DESC);
CREATE INDEX audit_log_by_workspace ON audit_log (organization_id, (coalesce(details->>'workspaceName',
  details->>'defaultWorkspaceName', CASE WHEN act LIKE 'webhook%' THEN subject END)), at DESC, id DESC);
DROP INDEX IF EXISTS audit_log_organization_id_id_idx;

-- What was accepted in the minute of the last count, and in the one before. Minutes since the Unix epoch.
ALTER TABLE experiment_counters
  ADD COLUMN minute bigint NOT NULL DEFAULT 0,
  ADD COLUMN this_minute bigint NOT NULL DEFAULT 0,
  ADD COLUMN last_minute bigint NOT NULL DEFAULT 0;
CREATE INDEX ON experiment_counters (minute);
ALTER TABLE monitored_model_counters
  ADD COLUMN minute bigint NOT NULL DEFAULT 0,
  ADD COLUMN this_minute bigint NOT NULL DEFAULT 0,
  ADD COLUMN last_minute bigint NOT NULL DEFAULT 0;
CREATE INDEX ON monitored_model_counters (minute);

-- The backups that `svc backup` has finished. Whether they are still in their place, only `svc backup list` knows.
CREATE TABLE finished_backups (
  id text PRIMARY KEY,
  -- A folder or an address, without its secrets.
  place text NOT NULL,
  started_at timestamptz NOT NULL,
  finished_at timestamptz NOT NULL,
  bytes bigint NOT NULL,
  version text NOT NULL
);

-- Down Migration

-- Migrations only go forward: restore a backup to go back.
