-- Up Migration

-- The number that a text is, as `toNumber` of store/search/numbers.ts reads it, or null. The first branches are the frequent
-- ones: a regular expression takes longer than all the rest of a search. Beyond the range of a float it is an infinity or 0.
CREATE FUNCTION number_of(value text) RETURNS float8 LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT CASE
    WHEN translate(left(value, 1), E'0123456789+-.nNiI \t\n\r\f\v', '') <> '' OR octet_length(value) > 200 THEN NULL
    WHEN translate(value, '0123456789', '') IN ('', '.') AND value NOT IN ('', '.') AND octet_length(value) <= 40
      THEN value::float8
    WHEN value ~ '^[ \t\n\r\f\v]*[+-]?([0-9]+[.]?[0-9]*|[.][0-9]+)([eE][+-]?[0-9]{1,4})?[ \t\n\r\f\v]*$' THEN CASE
      WHEN octet_length(value) <= 40 AND value !~ '[eE][+-]?[0-9]{3}' THEN value::float8
      WHEN abs(value::numeric) >= 1.797693134862315807937e308 THEN sign(value::numeric) * 'Infinity'::float8
      WHEN abs(value::numeric) <= 2.47032822920623272e-324 THEN 0
      ELSE value::numeric::float8 END
    WHEN lower(btrim(value, E' \t\n\r\f\v')) IN ('nan', 'inf', '+inf', '-inf', 'infinity', '+infinity', '-infinity')
      THEN btrim(value, E' \t\n\r\f\v')::float8
  END
$$;

-- What all runs have of one parameter or other lies together, so a search reads that alone. An entry of an index has room for
-- short values only; the few others are read from the table.
CREATE INDEX experiment_values_by_name ON experiment_values (name, kind, number_of(value), experiment_id) INCLUDE (value)
  WHERE octet_length(value) <= 200;
CREATE INDEX experiment_values_long ON experiment_values (name, kind, experiment_id) WHERE octet_length(value) > 200;
CREATE INDEX experiment_tags_by_tag ON experiment_tags (tag, experiment_id);

-- Down Migration

-- Migrations only go forward: restore a backup to go back.
