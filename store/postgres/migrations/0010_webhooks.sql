-- Up Migration

-- Who is told of changes of the registry. What a receiver must not be asked for twice is encrypted with the data key of its
-- organization: the headers, for they may hold tokens, and the secrets that sign.
CREATE TABLE webhook_receivers (
  id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
  workspace_id uuid NOT NULL REFERENCES workspaces ON DELETE CASCADE,
  -- Or *: every model of the workspace.
  model_name text NOT NULL,
  url text NOT NULL,
  name text,
  triggers text[] NOT NULL,
  is_git_host boolean NOT NULL,
  -- Names and values, as JSON.
  headers bytea NOT NULL,
  header_names text[] NOT NULL,
  -- The secret of the organization that is sent as Authorization.
  secret_ref text,
  signing_secret bytea NOT NULL,
  -- Signs along until then.
  old_signing_secret bytea,
  old_signs_until_ms bigint,
  user_name text NOT NULL,
  created_at_ms bigint NOT NULL,
  -- Nothing is sent to it any more, until somebody enables it: its deliveries wait.
  disabled_at_ms bigint,
  disabled_reason text,
  -- The log of its deliveries stays.
  removed_at_ms bigint,
  CHECK ((disabled_at_ms IS NULL) = (disabled_reason IS NULL)),
  CHECK ((old_signing_secret IS NULL) = (old_signs_until_ms IS NULL))
);
CREATE UNIQUE INDEX ON webhook_receivers (workspace_id, model_name, url) WHERE removed_at_ms IS NULL;

-- The outbox and its log: one row for each change and each receiver that wants to hear of it, written in the transaction
-- that makes the change. Ids of one line are in the order of its changes.
CREATE TABLE webhook_deliveries (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  receiver_id uuid NOT NULL REFERENCES webhook_receivers ON DELETE CASCADE,
  -- What the receiver knows it by, however often it is sent.
  message_id text NOT NULL DEFAULT 'msg_' || replace(gen_random_uuid()::text, '-', ''),
  -- The version, or the model, whose changes are told one after the other.
  line text NOT NULL,
  event text NOT NULL,
  model_name text,
  version text,
  -- To the byte what is sent.
  payload text NOT NULL,
  created_at_ms bigint NOT NULL,
  state text NOT NULL DEFAULT 'pending' CHECK (state IN ('pending', 'delivered', 'failed', 'cancelled')),
  -- Attempts in all, and since it was last asked for.
  attempts integer NOT NULL DEFAULT 0,
  tries integer NOT NULL DEFAULT 0,
  -- Not before; null while its receiver is disabled.
  due_at_ms bigint,
  ended_at_ms bigint
);
CREATE INDEX ON webhook_deliveries (receiver_id, id);
CREATE INDEX ON webhook_deliveries (receiver_id, line, id) WHERE state = 'pending';
CREATE INDEX ON webhook_deliveries (due_at_ms) WHERE state = 'pending';
CREATE INDEX ON webhook_deliveries (created_at_ms);

CREATE TABLE webhook_attempts (
  delivery_id bigint NOT NULL REFERENCES webhook_deliveries ON DELETE CASCADE,
  number integer NOT NULL,
  at_ms bigint NOT NULL,
  -- What the receiver answered, or why it did not.
  status integer,
  failure text,
  PRIMARY KEY (delivery_id, number),
  CHECK (num_nonnulls(status, failure) = 1)
);

-- Who sends to a receiver at present, and until when it may be thought of as alive.
CREATE TABLE webhook_rounds (
  receiver_id uuid PRIMARY KEY REFERENCES webhook_receivers ON DELETE CASCADE,
  holder uuid NOT NULL,
  until timestamptz NOT NULL
);

-- Down Migration

-- Migrations only go forward: restore a backup to go back.
