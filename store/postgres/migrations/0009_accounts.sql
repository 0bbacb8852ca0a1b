-- Up Migration

-- Service accounts are users of a kind of their own: some may use every workspace of their organization, the others those
-- that they are members of and nothing else. A name belongs to an organization, so that nobody learns which names others
-- have. Whoever is removed stays as a row, for what they made carries their name; the name itself is free again.
ALTER TABLE users
  ADD COLUMN kind text NOT NULL DEFAULT 'person' CHECK (kind IN ('person', 'global service', 'restricted service')),
  ADD COLUMN created_by text,
  ADD COLUMN last_active_at_ms bigint,
  ADD COLUMN deleted_at timestamptz,
  ADD CHECK (kind = 'person' OR NOT is_admin);
ALTER TABLE users DROP CONSTRAINT users_user_name_key;
CREATE UNIQUE INDEX users_organization_id_user_name_key ON users (organization_id, user_name) WHERE deleted_at IS NULL;
CREATE INDEX ON users (user_name);

-- Every process remembers whose keys are whose: it is told when that changes, by the hash of the key.
CREATE FUNCTION tell_key_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  PERFORM pg_notify('svc_keys', encode(coalesce(NEW.key_hash, OLD.key_hash), 'hex'));
  RETURN NULL;
END $$;
CREATE TRIGGER tell_key_change AFTER INSERT OR DELETE ON api_keys
  FOR EACH ROW EXECUTE FUNCTION tell_key_change();
CREATE TRIGGER tell_key_update AFTER UPDATE ON api_keys
  FOR EACH ROW WHEN (OLD.* IS DISTINCT FROM NEW.*) EXECUTE FUNCTION tell_key_change();

CREATE FUNCTION tell_user_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  PERFORM pg_notify('svc_keys', encode(key_hash, 'hex')) FROM api_keys WHERE user_id = NEW.id AND revoked_at IS NULL;
  RETURN NULL;
END $$;
CREATE TRIGGER tell_user_change AFTER UPDATE ON users
  FOR EACH ROW WHEN (
    (OLD.organization_id, OLD.user_name, OLD.is_admin, OLD.kind, OLD.default_workspace_id, OLD.deleted_at)
    IS DISTINCT FROM
    (NEW.organization_id, NEW.user_name, NEW.is_admin, NEW.kind, NEW.default_workspace_id, NEW.deleted_at))
  EXECUTE FUNCTION tell_user_change();

-- Which master key is in use, by a fingerprint: it wraps the data keys of all organizations.
CREATE TABLE master_key (
  is_only boolean PRIMARY KEY DEFAULT true CHECK (is_only),
  fingerprint bytea NOT NULL
);

-- Each encrypted as nonce, tag and ciphertext of AES-256-GCM.
CREATE TABLE organization_data_keys (
  organization_id uuid PRIMARY KEY REFERENCES organizations ON DELETE CASCADE,
  wrapped bytea NOT NULL
);
CREATE TABLE organization_secrets (
  organization_id uuid NOT NULL REFERENCES organizations ON DELETE CASCADE,
  name text NOT NULL,
  encrypted bytea NOT NULL,
  updated_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (organization_id, name)
);

-- What was done to accounts, keys, secrets, limits and memberships, and by whom. Names are kept as they were.
CREATE TABLE audit_log (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  organization_id uuid NOT NULL REFERENCES organizations ON DELETE CASCADE,
  at timestamptz NOT NULL DEFAULT now(),
  actor text NOT NULL,
  act text NOT NULL,
  subject text NOT NULL,
  details jsonb NOT NULL DEFAULT '{}'
);
CREATE INDEX ON audit_log (organization_id, id DESC);

-- Down Migration

-- Migrations only go forward: restore a backup to go back.
