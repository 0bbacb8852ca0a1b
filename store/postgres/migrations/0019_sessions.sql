-- Up Migration

-- What a browser signs in with. Ended by deleting the row; a session opened with a key ends with that key.
CREATE TABLE sessions (
  id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
  user_id uuid NOT NULL REFERENCES users ON DELETE CASCADE,
  -- Null for a session that a sign-in link opened.
  key_id uuid REFERENCES api_keys ON DELETE CASCADE,
  token_hash bytea NOT NULL UNIQUE,
  user_agent text NOT NULL,
  created_at timestamptz NOT NULL DEFAULT now(),
  expires_at timestamptz NOT NULL
);
CREATE INDEX ON sessions (user_id);
CREATE INDEX ON sessions (key_id);
CREATE INDEX ON sessions (expires_at);

-- Each works once: using it deletes the row.
CREATE TABLE sign_in_links (
  token_hash bytea PRIMARY KEY,
  user_id uuid NOT NULL REFERENCES users ON DELETE CASCADE,
  expires_at timestamptz NOT NULL
);

-- What the owner calls the key, to tell it from others.
ALTER TABLE api_keys ADD COLUMN name text;

-- Processes remember whose sessions are whose, as they do for keys: they are told by the hash of the session.
CREATE FUNCTION tell_session_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  PERFORM pg_notify('svc_keys', encode(coalesce(NEW.token_hash, OLD.token_hash), 'hex'));
  RETURN NULL;
END $$;
CREATE TRIGGER tell_session_change AFTER INSERT OR UPDATE OR DELETE ON sessions
  FOR EACH ROW EXECUTE FUNCTION tell_session_change();

CREATE OR REPLACE FUNCTION tell_key_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  PERFORM pg_notify('svc_keys', encode(coalesce(NEW.key_hash, OLD.key_hash), 'hex'));
  PERFORM pg_notify('svc_keys', encode(token_hash, 'hex')) FROM sessions WHERE key_id = NEW.id;
  RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION tell_user_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  PERFORM pg_notify('svc_keys', encode(key_hash, 'hex')) FROM api_keys WHERE user_id = NEW.id AND revoked_at IS NULL;
  PERFORM pg_notify('svc_keys', encode(token_hash, 'hex')) FROM sessions WHERE user_id = NEW.id;
  RETURN NULL;
END $$;

-- Down Migration

-- Migrations only go forward: restore a backup to go back.
