-- Rows of every table, in the words of the schema on which they were written. Each section is run right after the migration
-- of its number; `every-earlier-schema.test.ts` brings them to the newest schema. A migration that adds or reshapes a table
-- adds a section. Sections are never changed: they are what an installation of that time holds.

-- 0001
INSERT INTO organizations (id, name) VALUES ('00000000-0000-4000-8000-000000000001', 'default');
INSERT INTO workspaces (id, organization_id, name, plan) VALUES
  ('00000000-0000-4000-8000-0000000000a1', '00000000-0000-4000-8000-000000000001', 'vision', 'free'),
  ('00000000-0000-4000-8000-0000000000a2', '00000000-0000-4000-8000-000000000001', 'speech', NULL);
INSERT INTO users (id, organization_id, user_name, is_admin, default_workspace_id) VALUES
  ('00000000-0000-4000-8000-0000000000b1', '00000000-0000-4000-8000-000000000001', 'ada', true, '00000000-0000-4000-8000-0000000000a1'),
  ('00000000-0000-4000-8000-0000000000b2', '00000000-0000-4000-8000-000000000001', 'Ben', false, NULL);
INSERT INTO api_keys (user_id, key_hash, shown_prefix, revoked_at) VALUES
  ('00000000-0000-4000-8000-0000000000b1', '\x01', 'svc_ada', NULL),
  ('00000000-0000-4000-8000-0000000000b2', '\x02', 'svc_ben', '2026-11-20 12:00Z');
INSERT INTO workspace_members VALUES
  ('00000000-0000-4000-8000-0000000000a1', '00000000-0000-4000-8000-0000000000b1', true),
  ('00000000-0000-4000-8000-0000000000a1', '00000000-0000-4000-8000-0000000000b2', false);
INSERT INTO projects (id, workspace_id, owner_id, name, description, is_public) VALUES
  ('p1', '00000000-0000-4000-8000-0000000000a1', '00000000-0000-4000-8000-0000000000b1', 'cats', 'of all kinds', true),
  ('p2', '00000000-0000-4000-8000-0000000000a2', '00000000-0000-4000-8000-0000000000b2', 'Ünïcode', '', false);
INSERT INTO experiments (key, project_id, user_id, name, start_time_ms, end_time_ms, active_at_ms, archived) VALUES
  ('e1', 'p1', '00000000-0000-4000-8000-0000000000b1', 'first', 1760000000000, 1760000001000, 1760000001000, false),
  ('e2', 'p2', '00000000-0000-4000-8000-0000000000b2', 'second', 1760000002000, NULL, 1760000003000, true);
INSERT INTO experiment_values VALUES
  (1, 'parameter', 'rate', '0.001', 3, 1760000000000), (1, 'parameter', 'name', 'resnet', NULL, 1760000000000),
  (1, 'other', 'size', '1e400', NULL, 1760000000000), (2, 'other', 'text', repeat('x', 300), NULL, 1760000000000);
INSERT INTO experiment_tags (experiment_id, tag) VALUES (1, 'Best'), (1, 'best'), (2, 'best');

-- 0002
INSERT INTO dead_letters (queue, rows, received_ms, reason, block) VALUES ('metrics', 2, 1760000000000, 'too long', '\x0102');

-- 0003
UPDATE workspaces SET limits = '{"points": 7}' WHERE name = 'vision';
UPDATE projects SET limits = '{"points": 8}' WHERE id = 'p1';
UPDATE api_keys SET limits = '{"requests": 9}' WHERE shown_prefix = 'svc_ada';
INSERT INTO experiment_counters VALUES (1, 'metrics', 10, 2);
INSERT INTO experiment_throttles VALUES (1, 'points', 1760000000000);

-- 0004
UPDATE experiments SET has_crashed = true, error = 'out of memory' WHERE key = 'e2';
UPDATE projects SET notes = '# Cats' WHERE id = 'p1';
INSERT INTO experiments (key, project_id, user_id, name, start_time_ms, active_at_ms, deleted_at) VALUES
  ('e3', 'p1', '00000000-0000-4000-8000-0000000000b1', 'deleted', 1760000000000, 1760000000000, '2026-11-20 12:00Z');
INSERT INTO experiment_documents VALUES (1, 'git', '{"branch": "main"}'), (1, 'code', 'print(1)');
INSERT INTO project_share_links (code, project_id) VALUES ('shared', 'p1');
INSERT INTO experiment_symlinks VALUES ('p2', 1);
INSERT INTO project_default_views VALUES ('p1', 'project', 'template');

-- 0005
INSERT INTO assets (experiment_id, id, file_name, type, content_type, size, sha256, object_key, link, step, tags, created_at_ms) VALUES
  (1, 'asset1', 'cat.png', 'image', 'image/png', 3, 'abc', 'objects/1', NULL, 5, '{a,b}', 1760000000000),
  (1, 'asset2', 'far', 'asset', 'text/plain', 0, NULL, NULL, 's3://bucket/far', NULL, '{}', 1760000000000);
INSERT INTO experiment_models (id, experiment_id, name) VALUES ('em1', 1, 'model');
INSERT INTO loose_objects VALUES ('objects/9', '2026-11-20 12:00Z');

-- 0006
INSERT INTO artifacts (id, workspace_id, project_id, experiment_key, owner_id, name, type, is_public) VALUES
  ('a1', '00000000-0000-4000-8000-0000000000a1', 'p1', 'e1', '00000000-0000-4000-8000-0000000000b1', 'data', 'dataset', false);
INSERT INTO artifact_versions (id, artifact_id, version, state, experiment_id, experiment_key, owner_id, created_at_ms) VALUES
  ('av1', 'a1', '1.0.0', 'CLOSED', 1, 'e1', '00000000-0000-4000-8000-0000000000b1', 1760000000000),
  ('av2', 'a1', '1.0.1', 'OPEN', NULL, 'gone', '00000000-0000-4000-8000-0000000000b1', 1760000000001);
INSERT INTO artifact_aliases VALUES ('av1', 'latest');
INSERT INTO artifact_consumers (artifact_version_id, experiment_id) VALUES ('av1', 2);
INSERT INTO artifact_files VALUES
  ('av1', 'f1', 1, 'a.csv', 'asset', 'text/csv', 4, 'def', 'objects/2', NULL, NULL, 'train', NULL, '{}', NULL, 1760000000000);
INSERT INTO assets (experiment_id, id, file_name, type, content_type, size, sha256, object_key, artifact_version_id, created_at_ms)
  VALUES (1, 'asset3', 'of an artifact', 'asset', 'text/csv', 4, 'def', 'objects/3', 'av2', 1760000000000);

-- 0007
INSERT INTO viz_stores VALUES ('p1', 'instance', '{"zoom": 2}');
INSERT INTO panels (id, workspace_id, user_id, file_name, size, sha256, object_key, created_at_ms, updated_at_ms) VALUES
  ('panel1', '00000000-0000-4000-8000-0000000000a1', '00000000-0000-4000-8000-0000000000b1', 'panel.zip', 5, 'ghi', 'objects/4', 1, 2);
INSERT INTO experiment_calls (id, experiment_id, method, arguments, result, created_at_ms, finished_at_ms) VALUES
  ('call1', 1, 'stop', '{}', NULL, 1, NULL), ('call2', 1, 'save', '{}', '"ok"', 1, 2);

-- 0008
INSERT INTO registry_models (id, workspace_id, user_id, name, description, is_public, notes, created_at_ms, updated_at_ms) VALUES
  ('m1', '00000000-0000-4000-8000-0000000000a1', '00000000-0000-4000-8000-0000000000b1', 'Cats', 'finds cats', true, 'v1', 1, 2),
  ('m2', '00000000-0000-4000-8000-0000000000a2', '00000000-0000-4000-8000-0000000000b2', 'cats', '', false, '', 1, 2);
INSERT INTO registry_versions (id, model_id, user_id, version, precedence, comment, stages, experiment_model_id,
    experiment_model_name, experiment_key, created_at_ms, updated_at_ms) VALUES
  ('mv1', 'm1', '00000000-0000-4000-8000-0000000000b1', '1.0.0', '1', 'good', '{production,qa}', 'em1', 'model', 'e1', 1, 2);
INSERT INTO registry_files VALUES
  ('mv1', 'f1', 1, 'weights', 'model', 'application/octet-stream', 6, 'jkl', 'objects/5', NULL, NULL, NULL, NULL, '{}', 'model', 1);
INSERT INTO registry_events (workspace_id, model_id, model_name, user_name, at_ms, action, added_stages, removed_stages, before, after)
  VALUES ('00000000-0000-4000-8000-0000000000a1', 'm1', 'Cats', 'ada', 1, 'MODEL_CREATED', '{}', '{}', '{}', '{"name": "Cats"}');
INSERT INTO loose_objects (object_key, free_after) VALUES ('objects/9', '2026-11-21 12:00Z');

-- 0009
INSERT INTO users (id, organization_id, user_name, kind, created_by, last_active_at_ms, deleted_at) VALUES
  ('00000000-0000-4000-8000-0000000000b3', '00000000-0000-4000-8000-000000000001', 'robot', 'global service', 'ada', 5, NULL),
  ('00000000-0000-4000-8000-0000000000b4', '00000000-0000-4000-8000-000000000001', 'gone', 'person', NULL, 5, '2026-11-20 12:00Z'),
  ('00000000-0000-4000-8000-0000000000b5', '00000000-0000-4000-8000-000000000001', 'gone', 'restricted service', 'ada', NULL, NULL);
INSERT INTO master_key (fingerprint) VALUES ('\x0a');
INSERT INTO organization_data_keys VALUES ('00000000-0000-4000-8000-000000000001', '\x0b');
INSERT INTO organization_secrets (organization_id, name, encrypted) VALUES ('00000000-0000-4000-8000-000000000001', 'token', '\x0c');
INSERT INTO audit_log (organization_id, actor, act, subject, details) VALUES
  ('00000000-0000-4000-8000-000000000001', 'ada', 'limits.set', 'vision', '{"workspaceName": "vision"}'),
  ('00000000-0000-4000-8000-000000000001', 'ada', 'secrets.set', 'token', '{}');

-- 0010
INSERT INTO webhook_receivers (id, workspace_id, model_name, url, triggers, is_git_host, headers, header_names, signing_secret,
    user_name, created_at_ms) VALUES
  ('00000000-0000-4000-8000-0000000000c1', '00000000-0000-4000-8000-0000000000a1', 'Cats', 'https://example.org/hook',
    '{stage}', false, '\x0d', '{authorization}', '\x0e', 'ada', 1);
INSERT INTO webhook_deliveries (receiver_id, line, event, model_name, version, payload, created_at_ms, due_at_ms) VALUES
  ('00000000-0000-4000-8000-0000000000c1', 'line', 'stage', 'Cats', '1.0.0', '{}', 1, 2);
INSERT INTO webhook_attempts VALUES (1, 1, 2, NULL, 'timeout');
INSERT INTO webhook_rounds VALUES ('00000000-0000-4000-8000-0000000000c1', '00000000-0000-4000-8000-0000000000ff', '2026-11-20 12:00Z');

-- 0011
UPDATE experiments SET not_alive_at_ms = 1760000004000 WHERE key = 'e1';

-- 0012
INSERT INTO monitored_models (workspace_id, name, created_at_ms) VALUES
  ('00000000-0000-4000-8000-0000000000a1', 'fraud', 1), ('00000000-0000-4000-8000-0000000000a1', 'fraud data', 1);
INSERT INTO reference_sets VALUES (2, 'fraud', '1', 1);
INSERT INTO event_claims VALUES (1, 1, 0, 0, '00000000-0000-4000-8000-0000000000d1');
INSERT INTO open_claims (is_given_up) VALUES (false), (true);
INSERT INTO untold_voids VALUES (2, 0, 1, 0);
INSERT INTO monitored_model_counters VALUES (1, 100, 2, 3);
INSERT INTO ingestion_errors VALUES ('00000000-0000-4000-8000-0000000000a1', '2026-11-20', 'fraud',
  '00000000-0000-4000-8000-0000000000d2', 'events', 'no id', '{}', 4, 1, 2);

-- 0013
INSERT INTO alert_rules (id, workspace_id, name, model_name, experiment_id, measure, comparison, threshold, details, window_ms,
    grace_ms, user_name, created_at_ms, evaluated_to_ms) VALUES
  ('00000000-0000-4000-8000-0000000000e1', '00000000-0000-4000-8000-0000000000a1', 'drift', 'fraud', NULL, 'drift', 'above', 0.2,
    '{"feature": "amount"}', 3600000, 0, 'ada', 1, 2),
  ('00000000-0000-4000-8000-0000000000e2', '00000000-0000-4000-8000-0000000000a1', 'loss', NULL, 1, 'metric', 'above', 10,
    '{"metric": "loss"}', 60000, 1000, 'ada', 1, 2);
INSERT INTO alert_firings (rule_id, window_from_ms, window_to_ms, fired_at_ms, found) VALUES
  ('00000000-0000-4000-8000-0000000000e1', 0, 3600000, 3600001, '{"value": 0.3}');
INSERT INTO alert_round (holder, until) VALUES ('00000000-0000-4000-8000-0000000000ff', '2026-11-20 12:00Z');

-- 0014
UPDATE workspaces SET kept_days = '{"metrics": 30}' WHERE name = 'speech';
INSERT INTO retention_sweeps (workspace_id, data_type, up_to_ms, rows) VALUES ('00000000-0000-4000-8000-0000000000a2', 'metrics', 1, 5);

-- 0015
INSERT INTO experiment_values VALUES (2, 'parameter', 'train_rate', '0.1', NULL, 1760000000000, 'train');

-- 0017
UPDATE registry_versions SET status = 'Production', metadata = '[1]', status_configuration = '{"a": 1}' WHERE id = 'mv1';
UPDATE workspaces SET registry_statuses = '{None,Live}' WHERE name = 'speech';

-- 0018
INSERT INTO views (id, project_id, experiment_id, kind, name, user_id, content, updated_at_ms) VALUES
  ('v1', 'p1', NULL, 'dashboard', 'mine', '00000000-0000-4000-8000-0000000000b1', '{}', 1),
  ('v2', NULL, 1, 'chart', 'loss', '00000000-0000-4000-8000-0000000000b1', '{}', 1);

-- 0019
UPDATE api_keys SET name = 'laptop' WHERE shown_prefix = 'svc_ada';
INSERT INTO sessions (user_id, key_id, token_hash, user_agent, expires_at) VALUES
  ('00000000-0000-4000-8000-0000000000b1', (SELECT id FROM api_keys WHERE shown_prefix = 'svc_ada'), '\x0f', 'browser', '2027-01-01Z'),
  ('00000000-0000-4000-8000-0000000000b2', NULL, '\x10', 'browser', '2027-01-01Z');
INSERT INTO sign_in_links VALUES ('\x11', '00000000-0000-4000-8000-0000000000b1', '2027-01-01Z');

-- 0020
UPDATE projects SET archived = true WHERE id = 'p2';

-- 0021
INSERT INTO projects (id, workspace_id, owner_id, name, deleted_at, deleted_from) VALUES
  ('p3', NULL, '00000000-0000-4000-8000-0000000000b1', 'deleted', '2026-11-20 12:00Z', '00000000-0000-4000-8000-0000000000a1');
INSERT INTO experiments_of_deleted_projects VALUES (3, 'p3');

-- 0023
INSERT INTO imports (workspace_id, archive_id, experiment_ids, project_id) VALUES
  ('00000000-0000-4000-8000-0000000000a1', 'archive', '{1,2}', 'p1'), ('00000000-0000-4000-8000-0000000000a1', 'archive', '{}', NULL);

-- 0024
UPDATE projects SET artifact_location = 's3://bucket/here' WHERE id = 'p1';
UPDATE experiments SET reported_status = 'SCHEDULED' WHERE key = 'e2';
INSERT INTO project_tags VALUES ('p1', 'team', 'vision');
INSERT INTO run_datasets VALUES (1, 'mnist', 'abc', 'local', '/data', NULL, '{}', '[]');
INSERT INTO logged_models VALUES ('lm1', 1, 'net', 'group', NULL, true, 'READY', '[]', '[]', 1, 2, NULL);
INSERT INTO logged_model_metrics VALUES ('lm1', 1, 'loss', 'mnist', 'abc', 'NaN', 3, 4);
INSERT INTO run_models VALUES (1, 'lm1', true, 2);

-- 0025
INSERT INTO experiment_counters VALUES (2, 'output', 1, 0, 29000000, 5, 6);
UPDATE monitored_model_counters SET minute = 29000000, this_minute = 7, last_minute = 8;
INSERT INTO finished_backups VALUES ('b1', '/backups', '2026-11-20 12:00Z', '2026-11-20 12:01Z', 1000, '0.1.0');

-- 0027
INSERT INTO registry_model_tags VALUES ('m1', 'team', 'vision');
INSERT INTO registry_aliases VALUES ('m1', 'champion', 'mv1');
UPDATE registry_versions SET source = 'runs:/e1/model', source_run = 'e1', logged_model_id = 'lm1' WHERE id = 'mv1';

-- 0028
INSERT INTO notification_visits VALUES ('00000000-0000-4000-8000-0000000000b1', 5);

-- 0029
INSERT INTO segments (workspace_id, model_name, name, filters, user_name, created_at_ms) VALUES
  ('00000000-0000-4000-8000-0000000000a1', 'fraud', 'abroad', '[{"feature": "country"}]', 'ada', 1);
INSERT INTO drift_windows VALUES (1, 2, '1', 0, 3600000, 'made', 50, '[]', 1);

-- 0030
INSERT INTO alert_rules (workspace_id, name, project_id, measure, comparison, threshold, details, window_ms, grace_ms, user_name,
    created_at_ms, evaluated_to_ms, crossing) VALUES
  ('00000000-0000-4000-8000-0000000000a1', 'crashes', 'p1', 'crash', 'above', 0, '{}', 60000, 0, 'ada', 1, 2, '{e1}');

-- 0031
INSERT INTO identities (id, user_id, provider, issuer, subject, email, groups, sessions_until, keys_until, tokens) VALUES
  ('00000000-0000-4000-8000-0000000000f1', '00000000-0000-4000-8000-0000000000b1', 'company', 'https://example.org', 'ada',
    'ada@example.org', '{ml}', '2027-01-01Z', '2027-01-01Z', '\x12');
UPDATE users SET email = 'ada@example.org', is_admin_by_groups = true WHERE user_name = 'ada';
UPDATE users SET suspended_at = '2026-11-20 12:00Z' WHERE user_name = 'Ben';
UPDATE workspace_members SET is_by_groups = true WHERE is_owner;
UPDATE sessions SET identity_id = '00000000-0000-4000-8000-0000000000f1', id_token = '\x13' WHERE key_id IS NOT NULL;

-- 0032
INSERT INTO audit_log (organization_id, actor, act, subject) VALUES
  ('00000000-0000-4000-8000-000000000001', 'ada', 'keys.made', 'after the chain');

-- 0033
INSERT INTO workspace_members (workspace_id, user_id, role) VALUES
  ('00000000-0000-4000-8000-0000000000a2', '00000000-0000-4000-8000-0000000000b2', 'viewer');
UPDATE users SET is_auditor = true WHERE user_name = 'Ben';
UPDATE users SET workspace_role = 'viewer' WHERE user_name = 'robot';
INSERT INTO api_keys (user_id, key_hash, shown_prefix, scope, project_id, expires_at, created_by) VALUES
  ('00000000-0000-4000-8000-0000000000b2', '\x14', 'svc_read', 'read', 'p1', '2027-01-01Z', 'ada');
INSERT INTO api_key_uses SELECT id, 1760000000000 FROM api_keys WHERE shown_prefix = 'svc_read';
UPDATE organization_secrets SET workspace_ids = '{00000000-0000-4000-8000-0000000000a1}';

-- 0035
UPDATE organizations SET limits = '{"points": 5}';
