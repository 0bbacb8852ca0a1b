#!/bin/sh
# Options alone are those of the server, as in the image this stands in for.
case "${1-}" in -*) set -- redis-server "$@" ;; esac
if [ "${1-}" = redis-server ]; then
  shift
  set -- redis-server --bind 0.0.0.0 --protected-mode no "$@"
fi
exec "$@"
