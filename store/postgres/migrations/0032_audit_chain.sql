-- Up Migration

-- Each entry of the audit log carries a hash of itself and of the hash of the entry before it, so that a later change of any
-- of them is found. `store/postgres/accounts/audit-chain.ts` computes the same.
CREATE TABLE audit_chains (
  organization_id uuid PRIMARY KEY REFERENCES organizations ON DELETE CASCADE,
  -- The newest entry.
  position bigint NOT NULL,
  hash bytea NOT NULL,
  at timestamptz NOT NULL,
  -- The newest entry that has expired; the chain begins after it.
  anchor_position bigint NOT NULL DEFAULT 0,
  anchor_hash bytea NOT NULL DEFAULT decode(repeat('00', 32), 'hex')
);

ALTER TABLE audit_log
  ADD COLUMN position bigint,
  ADD COLUMN hash bytea,
  ALTER COLUMN at DROP DEFAULT;

-- Its length in bytes goes before each field, so that no two entries have the same text.
CREATE FUNCTION audit_field(field text) RETURNS text LANGUAGE sql IMMUTABLE AS $$
  SELECT octet_length(convert_to(field, 'UTF8')) || ':' || field || ','
$$;

CREATE FUNCTION audit_hash(
  previous bytea, organization_id uuid, entry_position bigint, at timestamptz, actor text, act text, subject text, details jsonb
) RETURNS bytea LANGUAGE plpgsql STABLE AS $$
BEGIN
  RETURN sha256(previous || convert_to(
    audit_field(organization_id::text) || audit_field(entry_position::text)
    || audit_field(to_char(at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'))
    || audit_field(actor) || audit_field(act) || audit_field(subject) || audit_field(details::text), 'UTF8'));
END $$;

CREATE AGGREGATE audit_hashes (uuid, bigint, timestamptz, text, text, text, jsonb) (
  SFUNC = audit_hash,
  STYPE = bytea,
  INITCOND = '\x0000000000000000000000000000000000000000000000000000000000000000'
);
UPDATE audit_log l SET position = chained.position, hash = chained.hash
FROM (
  SELECT id, position, audit_hashes(organization_id, position, at, actor, act, subject, details)
    OVER (PARTITION BY organization_id ORDER BY position) AS hash
  FROM (SELECT *, row_number() OVER (PARTITION BY organization_id ORDER BY at, id) AS position
        FROM (SELECT id, organization_id, at, actor, act, subject, details FROM audit_log) entries) numbered
) chained WHERE chained.id = l.id;
DROP AGGREGATE audit_hashes (uuid, bigint, timestamptz, text, text, text, jsonb);

INSERT INTO audit_chains (organization_id, position, hash, at)
  SELECT DISTINCT ON (organization_id) organization_id, position, hash, at FROM audit_log
  ORDER BY organization_id, position DESC;

ALTER TABLE audit_log ALTER COLUMN position SET NOT NULL, ALTER COLUMN hash SET NOT NULL;
CREATE UNIQUE INDEX audit_log_by_position ON audit_log (organization_id, position);

-- In Postgres, and not in the service: processes of the version before this one write entries, too, while they are replaced.
-- The row of the chain is locked until the transaction ends, so entries are chained in the order in which they become visible.
CREATE FUNCTION chain_audit_entry() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
  last audit_chains;
BEGIN
  -- A restored backup: the entry has its place already.
  IF NEW.hash IS NOT NULL THEN
    RETURN NEW;
  END IF;
  SELECT * INTO last FROM audit_chains WHERE organization_id = NEW.organization_id FOR UPDATE;
  IF NOT FOUND THEN
    INSERT INTO audit_chains (organization_id, position, hash, at)
      VALUES (NEW.organization_id, 0, decode(repeat('00', 32), 'hex'), 'epoch') ON CONFLICT DO NOTHING;
    SELECT * INTO last FROM audit_chains WHERE organization_id = NEW.organization_id FOR UPDATE;
  END IF;
  NEW.position := last.position + 1;
  -- Lists are ordered by time: no two entries may have the same, even when a clock is set back.
  NEW.at := coalesce(NEW.at, greatest(clock_timestamp(), last.at + interval '1 microsecond'));
  NEW.hash := audit_hash(
    last.hash, NEW.organization_id, NEW.position, NEW.at, NEW.actor, NEW.act, NEW.subject, NEW.details);
  UPDATE audit_chains SET position = NEW.position, hash = NEW.hash, at = greatest(NEW.at, last.at)
    WHERE organization_id = NEW.organization_id;
  RETURN NEW;
END $$;
CREATE TRIGGER chain_audit_entry BEFORE INSERT ON audit_log FOR EACH ROW EXECUTE FUNCTION chain_audit_entry();

-- Down Migration

-- Migrations only go forward: restore a backup to go back.
