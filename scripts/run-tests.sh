#!/bin/sh
# Runs each test of a build folder once, with further ctest options; fails if there are none:
#     scripts/run-tests.sh BUILD [OPTION...]
set -u
build=$1
shift
cd "$build" || exit 1
exec ctest --output-on-failure --no-tests=error -j "$(nproc 2>/dev/null || echo 2)" "$@"
