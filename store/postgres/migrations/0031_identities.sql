-- Up Migration

-- Who a user is to an identity provider, or to a reverse proxy that signs people in. Names and mail addresses change and are given
-- to others; the issuer and the subject do not.
CREATE TABLE identities (
  id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
  user_id uuid NOT NULL REFERENCES users ON DELETE CASCADE,
  -- The id of the provider in the settings; `proxy` for the reverse proxy.
  provider text NOT NULL,
  issuer text NOT NULL,
  subject text NOT NULL,
  email text,
  groups text[] NOT NULL DEFAULT '{}',
  created_at timestamptz NOT NULL DEFAULT now(),
  -- When the provider last said that the person is still one of its users.
  confirmed_at timestamptz NOT NULL DEFAULT now(),
  -- How long its sessions, and the keys of its user, work if nobody says so again.
  sessions_until timestamptz NOT NULL,
  keys_until timestamptz NOT NULL,
  -- When the provider said no, or was silent for too long.
  ended_at timestamptz,
  -- When to ask the provider again; null when there is nothing to ask with.
  check_at timestamptz,
  -- What the provider is asked with, encrypted.
  tokens bytea,
  UNIQUE (issuer, subject)
);
CREATE INDEX ON identities (user_id);
CREATE INDEX ON identities (check_at) WHERE check_at IS NOT NULL;
CREATE INDEX ON identities (keys_until) WHERE ended_at IS NULL;

-- A suspended user has no sessions, and its keys do not work until its provider admits it again.
ALTER TABLE users
  ADD COLUMN email text,
  ADD COLUMN suspended_at timestamptz,
  ADD COLUMN is_admin_by_groups boolean NOT NULL DEFAULT false;

-- What groups gave, groups take away.
ALTER TABLE workspace_members ADD COLUMN is_by_groups boolean NOT NULL DEFAULT false;

-- A session that a provider opened ends with the identity. The ID token is a hint for signing out there, encrypted.
ALTER TABLE sessions
  ADD COLUMN identity_id uuid REFERENCES identities ON DELETE CASCADE,
  ADD COLUMN id_token bytea;
CREATE INDEX ON sessions (identity_id) WHERE identity_id IS NOT NULL;

DROP TRIGGER tell_user_change ON users;
CREATE TRIGGER tell_user_change AFTER UPDATE ON users
  FOR EACH ROW WHEN (
    (OLD.organization_id, OLD.user_name, OLD.is_admin, OLD.kind, OLD.default_workspace_id, OLD.deleted_at, OLD.suspended_at)
    IS DISTINCT FROM
    (NEW.organization_id, NEW.user_name, NEW.is_admin, NEW.kind, NEW.default_workspace_id, NEW.deleted_at, NEW.suspended_at))
  EXECUTE FUNCTION tell_user_change();

-- Down Migration

-- Migrations only go forward: restore a backup to go back.
