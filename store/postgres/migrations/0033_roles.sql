-- Up Migration

-- In the order of what they may do: `role >= 'editor'` means an editor or an owner.
CREATE TYPE workspace_role AS ENUM ('viewer', 'editor', 'owner');

ALTER TABLE workspace_members ADD COLUMN role workspace_role;
UPDATE workspace_members SET role = CASE WHEN is_owner THEN 'owner' ELSE 'editor' END::workspace_role;

-- Processes of the previous version, which know owners and members only, run beside this one for a while: whichever of the
-- two columns a statement sets, the other follows.
CREATE FUNCTION follow_member_role() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_OP = 'INSERT' THEN
    NEW.role := coalesce(NEW.role, CASE WHEN NEW.is_owner THEN 'owner' ELSE 'editor' END::workspace_role);
  ELSIF NEW.role = OLD.role AND NEW.is_owner <> OLD.is_owner THEN
    NEW.role := CASE WHEN NEW.is_owner THEN 'owner' ELSE 'editor' END::workspace_role;
  END IF;
  NEW.is_owner := NEW.role = 'owner';
  RETURN NEW;
END $$;
CREATE TRIGGER follow_member_role BEFORE INSERT OR UPDATE ON workspace_members
  FOR EACH ROW EXECUTE FUNCTION follow_member_role();
ALTER TABLE workspace_members ALTER COLUMN role SET NOT NULL;

-- An auditor reads everything of the organization, and changes nothing. A service account for the whole organization has one
-- role in all of its workspaces; null is that of the previous version, an editor.
ALTER TABLE users
  ADD COLUMN is_auditor boolean NOT NULL DEFAULT false,
  ADD COLUMN workspace_role workspace_role CHECK (kind = 'global service' OR workspace_role IS NULL);

-- What a key may do of what its user may: `read`, `write` (and read), or `all`. One of a workspace or a project is of use
-- there only, and ends with it.
ALTER TABLE api_keys
  ADD COLUMN scope text NOT NULL DEFAULT 'all' CHECK (scope IN ('read', 'write', 'all')),
  ADD COLUMN workspace_id uuid REFERENCES workspaces ON DELETE CASCADE,
  ADD COLUMN project_id text REFERENCES projects ON DELETE CASCADE,
  ADD COLUMN expires_at timestamptz,
  ADD COLUMN created_by text,
  ADD CHECK (workspace_id IS NULL OR project_id IS NULL);
CREATE INDEX ON api_keys (workspace_id) WHERE workspace_id IS NOT NULL;
CREATE INDEX ON api_keys (project_id) WHERE project_id IS NOT NULL;

-- Apart from the keys: a change there is told to every process.
CREATE TABLE api_key_uses (
  key_id uuid PRIMARY KEY REFERENCES api_keys ON DELETE CASCADE,
  last_used_at_ms bigint NOT NULL
);

-- Secrets that owners of workspaces may name in their webhooks; null: all workspaces, as before.
ALTER TABLE organization_secrets ADD COLUMN workspace_ids uuid[];

-- The role of a user in a workspace: the highest that anything gives; null when there is none.
CREATE FUNCTION user_role(uuid, uuid) RETURNS workspace_role LANGUAGE sql STABLE STRICT AS $$
  SELECT max(role) FROM (
    SELECT role FROM workspace_members WHERE user_id = $1 AND workspace_id = $2
    UNION ALL
    SELECT CASE WHEN u.kind = 'global service' THEN coalesce(u.workspace_role, 'editor') ELSE 'viewer' END FROM users u
    JOIN workspaces w ON w.organization_id = u.organization_id
    WHERE u.id = $1 AND w.id = $2 AND (u.kind = 'global service' OR u.is_auditor)) AS given
$$;

CREATE FUNCTION highest_role(scope text) RETURNS workspace_role LANGUAGE sql IMMUTABLE STRICT AS $$
  SELECT CASE scope WHEN 'read' THEN 'viewer' WHEN 'write' THEN 'editor' ELSE 'owner' END::workspace_role
$$;

-- The role that a key has in a workspace: that of its user, or less; null for one of another workspace, or of a project.
-- `plpgsql`, which keeps the plan: these are asked in almost every query.
CREATE FUNCTION key_role(key uuid, workspace uuid) RETURNS workspace_role LANGUAGE plpgsql STABLE STRICT AS $$
BEGIN
  RETURN (SELECT least(user_role(k.user_id, workspace), highest_role(k.scope)) FROM api_keys k
    WHERE k.id = key AND k.project_id IS NULL AND coalesce(k.workspace_id, workspace) = workspace
      AND user_role(k.user_id, workspace) IS NOT NULL);
END $$;

-- The role that a key has in the project that it is for.
CREATE FUNCTION key_role_in_project(key uuid, project text) RETURNS workspace_role LANGUAGE plpgsql STABLE STRICT AS $$
BEGIN
  RETURN (SELECT least(user_role(k.user_id, coalesce(p.workspace_id, p.deleted_from)), highest_role(k.scope))
    FROM api_keys k JOIN projects p ON p.id = k.project_id
    WHERE k.id = key AND k.project_id = project
      AND user_role(k.user_id, coalesce(p.workspace_id, p.deleted_from)) IS NOT NULL);
END $$;

-- Whether a key is for another place than this workspace, or of an account that is: then what is public there is closed to it.
CREATE FUNCTION is_closed_to_key(key uuid, workspace uuid) RETURNS boolean LANGUAGE plpgsql STABLE STRICT AS $$
BEGIN
  RETURN EXISTS (SELECT 1 FROM api_keys k JOIN users u ON u.id = k.user_id WHERE k.id = key
    AND (k.workspace_id <> workspace OR k.project_id IS NOT NULL
      OR (u.kind = 'restricted service' AND user_role(u.id, workspace) IS NULL)));
END $$;

-- The same, where its owner may know that there is such a workspace.
CREATE FUNCTION is_withheld_from_key(key uuid, workspace uuid) RETURNS boolean LANGUAGE plpgsql STABLE STRICT AS $$
BEGIN
  RETURN is_closed_to_key(key, workspace) AND EXISTS (
    SELECT 1 FROM api_keys k JOIN users u ON u.id = k.user_id JOIN workspaces w ON w.organization_id = u.organization_id
    WHERE k.id = key AND w.id = workspace AND (u.kind = 'restricted service' OR user_role(u.id, workspace) IS NOT NULL));
END $$;

-- As before, and for what is new.
DROP TRIGGER tell_user_change ON users;
CREATE TRIGGER tell_user_change AFTER UPDATE ON users
  FOR EACH ROW WHEN (
    (OLD.organization_id, OLD.user_name, OLD.is_admin, OLD.is_auditor, OLD.kind, OLD.default_workspace_id, OLD.deleted_at,
      OLD.suspended_at)
    IS DISTINCT FROM
    (NEW.organization_id, NEW.user_name, NEW.is_admin, NEW.is_auditor, NEW.kind, NEW.default_workspace_id, NEW.deleted_at,
      NEW.suspended_at))
  EXECUTE FUNCTION tell_user_change();

-- Down Migration

-- Migrations only go forward: restore a backup to go back.
