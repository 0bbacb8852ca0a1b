-- Up Migration

-- Whether the points of an experiment may be stored as chunks. It never changes, so a request that is repeated while old and new
-- processes run is stored in the same form. Processes of earlier versions make experiments without.
ALTER TABLE experiments ADD COLUMN takes_chunks boolean NOT NULL DEFAULT false;

-- From when on new experiments take chunks: never, until a later migration says so. It has to be a moment at which no process of an
-- earlier version runs any more, for those know nothing of chunks.
CREATE TABLE point_chunks (since timestamptz NOT NULL);
CREATE UNIQUE INDEX ON point_chunks ((true));
INSERT INTO point_chunks VALUES ('infinity');

-- Down Migration

-- Migrations only go forward: restore a backup to go back.
