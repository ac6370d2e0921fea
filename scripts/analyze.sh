#!/bin/sh
# Static analysis of the library, the tool and the examples, or of other files:
#     scripts/analyze.sh clang-tidy|cppcheck|gcc [FILE...]
# Any finding fails. A false positive is resolved where it arises, by code that tells the analyzer
# more, or is turned off with its reason beside it: here, or in .clang-tidy.
# Exits with 77 and says why if the analyzer is missing.
set -eu
analyzer=${1:?usage: analyze.sh clang-tidy|cppcheck|gcc [FILE...]}
shift
cd "$(dirname "$0")/.."
. scripts/sources.sh
files=$*
if [ -z "$files" ]; then
    library=$(library_sources)
    tool=$(tool_sources)
    others=$(list_sources "other sources" http/src/*.c sha256/*.c examples/*.c examples/llama/*.c)
    files="$library $tool $others"
fi
flags="-std=c11 -D_GNU_SOURCE -DTOOL_HAVE_HTTP -Iinclude -Isrc -Itool -Ihttp -Isha256"

need() { # need COMMAND PACKAGE
    command -v "$1" >/dev/null && return
    echo "skipped: $1 is not here (Debian: $2)"
    exit 77
}

sources() { printf '%s\n' $files; }

# each COMMAND: runs it for every source, which it calls {}, with one job per processor. Fails if a
# job fails, and prints its findings.
each() {
    sources | xargs -P "$(nproc 2>/dev/null || echo 2)" -I{} \
        sh -c "found=\$($1 2>&1) || { echo \"\$found\"; exit 1; }"
}

case $analyzer in
clang-tidy)
    need clang-tidy-14 clang-tidy-14
    each "clang-tidy-14 --quiet --warnings-as-errors='*' {} -- $flags"
    ;;
cppcheck)
    need cppcheck cppcheck
    # Style is left to clang-tidy and the compilers. cppcheck 2.10 mistakes a table of functions for
    # a bool when one of the functions is assigned to a pointer.
    cppcheck --quiet --error-exitcode=1 --std=c11 --enable=warning,portability,performance \
        --suppress=assignBoolToPointer \
        -j "$(nproc 2>/dev/null || echo 2)" -Iinclude -Isrc -Itool -Ihttp -Isha256 $(sources)
    ;;
gcc)
    need gcc gcc
    # Version 12 is the first whose analyzer is useful for C; older ones report what they cannot
    # follow.
    if [ "$(gcc -dumpversion | cut -d. -f1)" -lt 12 ]; then
        echo "skipped: gcc is older than 12"
        exit 77
    fi
    each "gcc $flags -O1 -fanalyzer -Werror -c {} -o /dev/null"
    ;;
*)
    echo "analyze.sh: unknown analyzer $analyzer" >&2
    exit 1
    ;;
esac
echo "$analyzer: no findings in $(sources | wc -l) files"
