#!/bin/sh
# Runs the tests of a build folder, with further options for ctest:
#     scripts/run-tests.sh BUILD [OPTION...]
# Some of them watch the page cache, which other programs on the machine disturb (label page-cache):
# those alone get a second try, and ctest says so.
set -u
build=$1
shift
cd "$build" || exit 1
jobs=$(nproc 2>/dev/null || echo 2)
status=0
ctest --output-on-failure -j "$jobs" -LE page-cache "$@" || status=1
ctest --output-on-failure -j "$jobs" -L page-cache --repeat until-pass:2 "$@" || status=1
exit $status
