#!/bin/bash
# Makes the user and the database from the variables in a temporary folder and renames it, so that a kill leaves nothing half made.
set -euo pipefail

programs=$(echo /usr/lib/postgresql/*/bin)
data=${PGDATA:-/var/lib/postgresql/18/docker}
user=${POSTGRES_USER:-postgres}
database=${POSTGRES_DB:-$user}
as_postgres() { setpriv --reuid=postgres --regid=postgres --init-groups "$@"; }

mkdir -p "$(dirname "$data")" /run/postgresql
chown -R postgres:postgres /var/lib/postgresql /run/postgresql
if [ ! -d "$data" ]; then
  draft=$data.new
  rm -rf "$draft"
  password=$(mktemp)
  echo "${POSTGRES_PASSWORD:?must be set}" >"$password"
  chown postgres "$password"
  as_postgres "$programs/initdb" --pgdata="$draft" --username="$user" --auth=scram-sha-256 --encoding=UTF8 --locale=C.UTF-8 \
    --pwfile="$password"
  rm "$password"
  echo 'host all all all scram-sha-256' >>"$draft/pg_hba.conf"
  if [ "$database" != postgres ]; then
    echo "CREATE DATABASE \"$database\"" | as_postgres "$programs/postgres" --single -D "$draft" postgres
  fi
  mv "$draft" "$data"
fi
if [ "${1-}" = postgres ]; then shift; fi
exec setpriv --reuid=postgres --regid=postgres --init-groups "$programs/postgres" -D "$data" -c listen_addresses='*' "$@"
