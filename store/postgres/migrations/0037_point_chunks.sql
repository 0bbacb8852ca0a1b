-- Up Migration

-- Whether the points of an experiment may be stored as chunks. It never changes, so a request that is repeated while old and new
-- processes run is stored in the same form. Processes of earlier versions make experiments without.
ALTER TABLE experiments ADD COLUMN takes_chunks boolean NOT NULL DEFAULT false;

-- Whether any point may be stored as a chunk: set before the first one is queued. Reads of the others need one table only.
ALTER TABLE experiments ADD COLUMN has_chunks boolean NOT NULL DEFAULT false;

-- From when on new experiments take chunks: at once in a new installation. In others a day later, when processes of earlier
-- versions, which know nothing of chunks, have been replaced.
CREATE TABLE point_chunks (since timestamptz NOT NULL);
CREATE UNIQUE INDEX ON point_chunks ((true));
INSERT INTO point_chunks
  SELECT CASE WHEN EXISTS (SELECT FROM experiments) THEN now() + interval '1 day' ELSE now() END;

-- Down Migration

-- Migrations only go forward: restore a backup to go back.
