#!/bin/sh
# Runs the tests of a build folder, each once, with further options for ctest:
#     scripts/run-tests.sh BUILD [OPTION...]
set -u
build=$1
shift
cd "$build" || exit 1
exec ctest --output-on-failure -j "$(nproc 2>/dev/null || echo 2)" "$@"
