-- Up Migration

-- Models that report from production, and data sets: they come into being with their first event.
CREATE TABLE monitored_models (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  workspace_id uuid NOT NULL REFERENCES workspaces ON DELETE CASCADE,
  name text NOT NULL,
  created_at_ms bigint NOT NULL,
  UNIQUE (workspace_id, name)
);

-- Which data set was uploaded as a reference for which model, which may not have reported yet.
CREATE TABLE reference_sets (
  data_set_id bigint NOT NULL REFERENCES monitored_models ON DELETE CASCADE,
  model_name text NOT NULL,
  model_version text NOT NULL,
  uploaded_at_ms bigint NOT NULL,
  PRIMARY KEY (data_set_id, model_name, model_version)
);

-- Who was first: one row for every prediction id of a model and kind, for ever; see event-claims.ts. Without a foreign key,
-- whose check would cost as much as the row: what is claimed goes with its model by the trigger.
CREATE TABLE event_claims (
  model_id bigint NOT NULL,
  claim bigint NOT NULL,
  place integer NOT NULL,
  kind smallint NOT NULL,
  id_hash uuid NOT NULL,
  PRIMARY KEY (model_id, kind, id_hash)
);

-- Claims whose events may not be in the queue yet. Those that were given up stay, for their ids are free to be taken.
CREATE TABLE open_claims (
  claim bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  opened_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  is_given_up boolean NOT NULL DEFAULT false
);

-- Numbers of events that were taken over and that ClickHouse has not been told of.
CREATE TABLE untold_voids (
  claim bigint NOT NULL,
  place integer NOT NULL,
  model_id bigint NOT NULL,
  kind smallint NOT NULL,
  PRIMARY KEY (claim, place)
);

CREATE FUNCTION delete_event_claims() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  DELETE FROM event_claims WHERE model_id = OLD.id;
  RETURN NULL;
END $$;
CREATE TRIGGER delete_event_claims AFTER DELETE ON monitored_models
  FOR EACH ROW EXECUTE FUNCTION delete_event_claims();

-- What became of the events of a model. Written every few seconds, so a killed process forgets a little.
CREATE TABLE monitored_model_counters (
  model_id bigint PRIMARY KEY REFERENCES monitored_models ON DELETE CASCADE,
  accepted bigint NOT NULL DEFAULT 0,
  duplicates bigint NOT NULL DEFAULT 0,
  throttled bigint NOT NULL DEFAULT 0
);

-- What was wrong with events, by day: the same fault of the same model is counted, with one sample.
CREATE TABLE ingestion_errors (
  workspace_id uuid NOT NULL REFERENCES workspaces ON DELETE CASCADE,
  day date NOT NULL,
  model_name text NOT NULL,
  fault_hash uuid NOT NULL,
  call text NOT NULL,
  fault text NOT NULL,
  sample text NOT NULL,
  count bigint NOT NULL,
  first_at_ms bigint NOT NULL,
  last_at_ms bigint NOT NULL,
  PRIMARY KEY (workspace_id, day, model_name, fault_hash)
);
CREATE INDEX ON ingestion_errors (day);

-- Down Migration

-- Migrations only go forward: restore a backup to go back.
