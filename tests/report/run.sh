#!/bin/sh
# Tests the report that `tenmap report` writes, in headless Chromium through Playwright.
#   tests/report/run.sh BUILD_FOLDER [--corpus FOLDER] [--picture docs/report.png]
# Leaves screenshots in BUILD_FOLDER/report-test. Exits with 77 and says why if it is skipped.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
build=$(cd "$1" && pwd)
shift

skip() {
    echo "SKIPPED: the report's page is not tested: $1"
    exit 77
}
command -v node >/dev/null || skip "node is missing"
command -v npm >/dev/null || skip "npm is missing"
[ -x "${CHROMIUM:-/usr/bin/chromium}" ] || skip "chromium is missing (apt install chromium)"

work=$build/report-test
rm -rf "$work"
mkdir -p "$work"
# Works outside the source tree, so that no package ends up in it.
cp "$here/package.json" "$here"/*.mjs "$work"
npm install --prefix "$work" --no-package-lock --no-audit --no-fund --loglevel=error >/dev/null ||
    skip "npm cannot fetch playwright-core"

demo=$build/examples/demo
[ -x "$demo" ] || demo=$build/examples/example_demo
"$demo" "$work/demo.safetensors"
status=0
(cd "$work" && timeout 600 node test.mjs "$build/tool/tenmap" "$work/demo.safetensors" "$work" "$@") || status=$?
rm -rf "$work"/*.safetensors "$work/shards" "$work/node_modules" "$work/large.html"
exit $status
