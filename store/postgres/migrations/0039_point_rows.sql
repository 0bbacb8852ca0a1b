-- Up Migration

-- Whether any point may be stored as a row: set before the first one is queued. Reads of experiments with chunks only need one table.
-- True of those that are there, and of those that processes of earlier versions make.
ALTER TABLE experiments ADD COLUMN has_rows boolean NOT NULL DEFAULT true;

-- From when on new experiments begin without: at once in a new installation. In others a day later, when processes of earlier
-- versions, which do not note their rows, have been replaced.
CREATE TABLE point_rows (since timestamptz NOT NULL);
CREATE UNIQUE INDEX ON point_rows ((true));
INSERT INTO point_rows
  SELECT CASE WHEN EXISTS (SELECT FROM experiments) THEN now() + interval '1 day' ELSE now() END;

-- Down Migration

-- Migrations only go forward: restore a backup to go back.
