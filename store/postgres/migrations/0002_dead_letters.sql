-- Up Migration

-- Rows that ClickHouse refuses for good, as blocks that can be replayed once the reason is gone.
CREATE TABLE dead_letters (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  queue text NOT NULL,
  rows integer NOT NULL,
  received_ms bigint NOT NULL,
  reason text NOT NULL,
  block bytea NOT NULL,
  set_aside_at timestamptz NOT NULL DEFAULT now()
);

-- Down Migration

-- Migrations only go forward: restore a backup to go back.
