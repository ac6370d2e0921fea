#!/bin/sh
# Checks whether HEAD can be released under a version, and prints the commands that release it:
#     scripts/release.sh VERSION             such as 0.1.0 or 0.1.0rc1
# Changes nothing. VERSION must be the one in include/tenmap/types.h, which is the only place that
# holds it; debian/changelog and CHANGELOG.md must have an entry for it. The tree must be clean, and
# the tag must be new or at HEAD.
set -eu
cd "$(dirname "$0")/.."
version=${1:?usage: scripts/release.sh VERSION}
. scripts/sources.sh
failed=0

# verdict STATUS WHAT REMEDY: prints a line, and counts the failures.
verdict() {
    if [ "$1" = 0 ]; then
        echo "ok      $2"
    else
        echo "FAILED  $2: $3"
        failed=$((failed + 1))
    fi
}

status=0
git rev-parse -q --verify HEAD >/dev/null || status=1
[ $status = 0 ] && [ -z "$(git status --porcelain)" ] || status=1
verdict $status "the tree is clean" "commit or remove what git status lists"

found=$(source_version)
status=0
[ "$found" = "$version" ] || status=1
verdict $status "include/tenmap/types.h has version $version" "it has $found; change the header"

# Debian sorts "~" before everything, so that 0.1.0~rc1 is older than 0.1.0.
debian=$(echo "$version" | sed 's/[a-z]/~&/')
found=$(sed -n '1s/.*(\(.*\)).*/\1/p' debian/changelog)
status=0
[ "$found" = "$debian" ] || status=1
verdict $status "debian/changelog starts with $debian" "it starts with $found; add an entry"

status=0
grep -q "\"tenmap $version\"" man/tenmap.1 || status=1
verdict $status "man/tenmap.1 names $version" "run scripts/tool-pages.sh TENMAP"

pattern=$(echo "$version" | sed 's/\./\\./g')
status=0
grep -Eq "^## $pattern \([0-9]{4}-[0-9]{2}-[0-9]{2}\)$" CHANGELOG.md || status=1
verdict $status "CHANGELOG.md has the section '## $version (DATE)'" \
    "rename Unreleased to '## $version ($(date -u +%Y-%m-%d))'"

status=0
if tagged=$(git rev-parse -q --verify "refs/tags/v$version^{commit}"); then
    [ "$tagged" = "$(git rev-parse HEAD)" ] || status=1
fi
verdict $status "the tag v$version is new or at HEAD" "it is at ${tagged-}; a version is released once"

if [ $failed -gt 0 ]; then
    echo "$failed of 6 checks failed: $version cannot be released from here"
    exit 1
fi
cat <<STEPS
$version can be released from $(git rev-parse --short HEAD). What is left to do:
    make check                           every check
    make dist                            every artefact, with SHA256SUMS, in build/dist
    git tag -s -m "tenmap $version" v$version && git push origin v$version
    twine upload build/dist/*.whl build/dist/tenmap-$version.tar.gz
and upload the other files of build/dist to the page of the release, whose text is RELEASE.md.
STEPS
