#!/bin/sh
# Arguments that are only options go to the server, as in the official image.
case "${1-}" in -*) set -- redis-server "$@" ;; esac
if [ "${1-}" = redis-server ]; then
  shift
  set -- redis-server --bind 0.0.0.0 --protected-mode no "$@"
fi
exec "$@"
