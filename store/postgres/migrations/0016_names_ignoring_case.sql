-- Up Migration

-- Names of registered models are unique, and found, ignoring case. The spelling stays as it was first sent.
CREATE COLLATION ignoring_case (provider = icu, locale = 'und-u-ks-level2', deterministic = false);

-- Of models whose names now collide the oldest keeps its name; the others get a number, with their webhooks, and their history
-- tells of it.
DO $$
DECLARE
  model record;
  new_name text;
  number integer;
BEGIN
  FOR model IN
    SELECT m.id, m.workspace_id, m.name FROM registry_models m WHERE EXISTS (
      SELECT 1 FROM registry_models o WHERE o.workspace_id = m.workspace_id AND o.name = m.name COLLATE ignoring_case
        AND (o.created_at_ms, o.id) < (m.created_at_ms, m.id))
    ORDER BY m.created_at_ms, m.id
  LOOP
    number := 2;
    LOOP
      new_name := left(model.name, 190) || ' (' || number || ')';
      EXIT WHEN NOT EXISTS (
        SELECT 1 FROM registry_models o
        WHERE o.workspace_id = model.workspace_id AND o.name = new_name COLLATE ignoring_case);
      number := number + 1;
    END LOOP;
    UPDATE registry_models SET name = new_name WHERE id = model.id;
    UPDATE webhook_receivers SET model_name = new_name
      WHERE workspace_id = model.workspace_id AND model_name = model.name AND removed_at_ms IS NULL;
    INSERT INTO registry_events (workspace_id, model_id, model_name, user_name, at_ms, action, added_stages, removed_stages,
        before, after)
      VALUES (model.workspace_id, model.id, new_name, 'svc', (extract(epoch FROM now()) * 1000)::bigint, 'MODEL_RENAMED',
        '{}', '{}', jsonb_build_object('registryModelName', model.name), jsonb_build_object('registryModelName', new_name));
  END LOOP;
END $$;

-- Of receivers with the same address for names that are now one the oldest stays.
WITH doubled AS (
  UPDATE webhook_receivers r SET removed_at_ms = (extract(epoch FROM now()) * 1000)::bigint
  WHERE r.removed_at_ms IS NULL AND EXISTS (
    SELECT 1 FROM webhook_receivers o WHERE o.removed_at_ms IS NULL AND o.workspace_id = r.workspace_id AND o.url = r.url
      AND o.model_name = r.model_name COLLATE ignoring_case AND (o.created_at_ms, o.id) < (r.created_at_ms, r.id))
  RETURNING r.id, r.removed_at_ms)
UPDATE webhook_deliveries d SET state = 'cancelled', due_at_ms = NULL, ended_at_ms = doubled.removed_at_ms
  FROM doubled WHERE d.receiver_id = doubled.id AND d.state = 'pending';

ALTER TABLE registry_models ALTER name TYPE text COLLATE ignoring_case;
ALTER TABLE registry_events ALTER model_name TYPE text COLLATE ignoring_case;
ALTER TABLE webhook_receivers ALTER model_name TYPE text COLLATE ignoring_case;
ALTER TABLE webhook_deliveries ALTER model_name TYPE text COLLATE ignoring_case;

-- Down Migration

-- Migrations only go forward: restore a backup to go back.
