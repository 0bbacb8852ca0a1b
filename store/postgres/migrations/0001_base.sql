-- Up Migration

CREATE TABLE organizations (
  id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
  name text NOT NULL UNIQUE,
  created_at timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE users (
  id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
  organization_id uuid NOT NULL REFERENCES organizations ON DELETE CASCADE,
  user_name text NOT NULL UNIQUE,
  is_admin boolean NOT NULL DEFAULT false,
  default_workspace_id uuid,
  created_at timestamptz NOT NULL DEFAULT now()
);

-- A key is shown once; what is kept is its SHA-256 and enough of its beginning to recognize it.
CREATE TABLE api_keys (
  id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
  user_id uuid NOT NULL REFERENCES users ON DELETE CASCADE,
  key_hash bytea NOT NULL UNIQUE,
  shown_prefix text NOT NULL,
  created_at timestamptz NOT NULL DEFAULT now(),
  revoked_at timestamptz
);
CREATE INDEX ON api_keys (user_id);

CREATE TABLE workspaces (
  id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
  organization_id uuid NOT NULL REFERENCES organizations ON DELETE CASCADE,
  name text NOT NULL,
  plan text,
  created_at timestamptz NOT NULL DEFAULT now(),
  UNIQUE (organization_id, name)
);
ALTER TABLE users ADD FOREIGN KEY (default_workspace_id) REFERENCES workspaces ON DELETE SET NULL;

CREATE TABLE workspace_members (
  workspace_id uuid NOT NULL REFERENCES workspaces ON DELETE CASCADE,
  user_id uuid NOT NULL REFERENCES users ON DELETE CASCADE,
  is_owner boolean NOT NULL DEFAULT false,
  PRIMARY KEY (workspace_id, user_id)
);
CREATE INDEX ON workspace_members (user_id);

CREATE TABLE projects (
  id text PRIMARY KEY DEFAULT replace(gen_random_uuid()::text, '-', ''),
  workspace_id uuid NOT NULL REFERENCES workspaces ON DELETE CASCADE,
  owner_id uuid NOT NULL REFERENCES users,
  name text NOT NULL,
  description text NOT NULL DEFAULT '',
  is_public boolean NOT NULL DEFAULT false,
  created_at timestamptz NOT NULL DEFAULT now(),
  updated_at timestamptz NOT NULL DEFAULT now(),
  UNIQUE (workspace_id, name)
);

-- `id` is what rows in ClickHouse carry: eight bytes instead of the key's text.
CREATE TABLE experiments (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  key text NOT NULL UNIQUE,
  project_id text NOT NULL REFERENCES projects ON DELETE CASCADE,
  user_id uuid NOT NULL REFERENCES users,
  name text NOT NULL,
  start_time_ms bigint NOT NULL,
  end_time_ms bigint,
  active_at_ms bigint NOT NULL,
  alive_at_ms bigint,
  stop_requested boolean NOT NULL DEFAULT false,
  archived boolean NOT NULL DEFAULT false,
  file_path text
);
CREATE INDEX ON experiments (project_id, id);

-- Parameters and others: the last value only.
CREATE TABLE experiment_values (
  experiment_id bigint NOT NULL REFERENCES experiments ON DELETE CASCADE,
  kind text NOT NULL CHECK (kind IN ('parameter', 'other')),
  name text NOT NULL,
  value text NOT NULL,
  step bigint,
  timestamp_ms bigint NOT NULL,
  PRIMARY KEY (experiment_id, kind, name)
);

CREATE TABLE experiment_tags (
  experiment_id bigint NOT NULL REFERENCES experiments ON DELETE CASCADE,
  tag text NOT NULL,
  added_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (experiment_id, tag)
);

-- Down Migration

-- Migrations only go forward: restore a backup to go back.
