-- Up Migration

-- From when on the values of events may be stored as chunks: at once in a new installation. In others a day later, when processes
-- of earlier versions, which know nothing of chunks, have been replaced. A claim is stored once, so nothing else is noted.
CREATE TABLE value_chunks (since timestamptz NOT NULL);
CREATE UNIQUE INDEX ON value_chunks ((true));
INSERT INTO value_chunks
  SELECT CASE WHEN EXISTS (SELECT FROM monitored_models) THEN now() + interval '1 day' ELSE now() END;

-- Down Migration

-- Migrations only go forward: restore a backup to go back.
