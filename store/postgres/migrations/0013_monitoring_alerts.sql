-- Up Migration

-- Rules that windows of time are held to: on what a model reports, or on a metric of an experiment.
CREATE TABLE alert_rules (
  id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
  workspace_id uuid NOT NULL REFERENCES workspaces ON DELETE CASCADE,
  name text NOT NULL,
  -- The name, for a rule may be there before the model is.
  model_name text,
  experiment_id bigint REFERENCES experiments ON DELETE CASCADE,
  measure text NOT NULL,
  comparison text NOT NULL CHECK (comparison IN ('above', 'below')),
  threshold double precision NOT NULL,
  -- What else the measure needs, by the names that requests have.
  details jsonb NOT NULL,
  window_ms bigint NOT NULL CHECK (window_ms > 0),
  -- How long after its end a window is looked at: what is late is in it then.
  grace_ms bigint NOT NULL CHECK (grace_ms >= 0),
  user_name text NOT NULL,
  created_at_ms bigint NOT NULL,
  paused_at_ms bigint,
  -- Windows are multiples of their length since the Unix epoch; those that end until then have been looked at.
  evaluated_to_ms bigint NOT NULL,
  -- Why the last window could not be looked at.
  problem text,
  CHECK (num_nonnulls(model_name, experiment_id) = 1)
);
CREATE INDEX ON alert_rules (workspace_id);
CREATE INDEX ON alert_rules ((evaluated_to_ms + window_ms + grace_ms)) WHERE paused_at_ms IS NULL;

-- A rule fires once for a window: the row, the deliveries of webhooks and the progress of the rule are one transaction.
CREATE TABLE alert_firings (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  rule_id uuid NOT NULL REFERENCES alert_rules ON DELETE CASCADE,
  window_from_ms bigint NOT NULL,
  window_to_ms bigint NOT NULL,
  fired_at_ms bigint NOT NULL,
  -- What crossed the threshold, the worst first.
  found jsonb NOT NULL,
  UNIQUE (rule_id, window_from_ms)
);

-- Which worker looks at the rules at present, and until when it may be thought of as alive.
CREATE TABLE alert_round (
  is_only boolean PRIMARY KEY DEFAULT true CHECK (is_only),
  holder uuid NOT NULL,
  until timestamptz NOT NULL
);

-- Down Migration

-- Migrations only go forward: restore a backup to go back.
