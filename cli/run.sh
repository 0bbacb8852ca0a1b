#!/bin/sh
# Installs what is missing, on whatever Node the machine has, and becomes Node 24 with the given script: `exec`, so that
# signals reach it. The path is explicit because a shell remembers where it found the first `node`.
#
# What is compiled is kept, the first file too, which is loaded before `cli/svc.ts` can say so.
export NODE_COMPILE_CACHE="${NODE_COMPILE_CACHE:-$PWD/node_modules/.cache/svc}"
node cli/install.cjs && exec node_modules/.bin/node "$@"
