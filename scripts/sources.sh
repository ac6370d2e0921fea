# Lists which files belong to what, in one place for all scripts. Source this from the root of the
# tree:
#     . scripts/sources.sh
#     files=$(library_sources) || exit 1
# Each function prints its files, one per line, and their number on stderr. It fails if there are
# none, so that no check passes because it saw nothing.

# list_sources WHAT FILE...
list_sources() {
    listed_what=$1
    shift
    [ -e "$1" ] || {
        echo "no $listed_what: $1" >&2
        return 1
    }
    echo "$# $listed_what" >&2
    printf '%s\n' "$@"
}

# Fails if a C file of src/ is not in a layer's folder, because the lists below would miss it.
in_layers() {
    in_layers_stray=$(find src -name '*.[ch]' 2>/dev/null | grep -v '^src/[^/]*/[^/]*$')
    [ -z "$in_layers_stray" ] || {
        echo "not in the folder of a layer:" $in_layers_stray >&2
        return 1
    }
}

library_sources() { in_layers && list_sources "sources of the library" src/*/*.c; }
library_files() { in_layers && list_sources "sources and headers of the library" src/*/*.c src/*/*.h; }
tool_sources() { list_sources "sources of the tool" tool/*.c tool/*/*.c; }
sha256_sources() { list_sources "sources of SHA-256" sha256/*.c; }
unit_tests() { list_sources "unit tests" tests/unit/*/test_*.c; }

# unit_test NAME: prints the path of tests/unit/LAYER/test_NAME.c.
unit_test() {
    for unit_test_path in tests/unit/*/"test_$1.c"; do
        [ -f "$unit_test_path" ] && echo "$unit_test_path" && return
    done
    echo "no unit test of that name: $1" >&2
    return 1
}

# given_library FOLDER: makes links in FOLDER to the shared library that TENMAP_LIBRARY names, under
# the names that a linker and a loader look for: -LFOLDER -ltenmap -Wl,-rpath,FOLDER.
given_library() {
    [ -f "$TENMAP_LIBRARY" ] || {
        echo "TENMAP_LIBRARY names no file: $TENMAP_LIBRARY" >&2
        return 1
    }
    given_path=$(realpath "$TENMAP_LIBRARY")
    given_soname=$(objdump -p "$given_path" | awk '$1 == "SONAME" { print $2 }')
    mkdir -p "$1"
    ln -sf "$given_path" "$1/libtenmap.so"
    [ -z "$given_soname" ] || ln -sf "$given_path" "$1/$given_soname"
}

# Prints the version of the sources, such as 0.1.0 or 0.1.0rc1. The header is the only place that
# holds it.
source_version() {
    sed -n 's/^#define TENMAP_VERSION_\(MAJOR\|MINOR\|PATCH\|SUFFIX\) "\{0,1\}\([0-9a-z]*\)"\{0,1\}$/\1 \2/p' \
        include/tenmap/types.h | awk '
        { value[$1] = $2 }
        END {
            if (!("MAJOR" in value && "MINOR" in value && "PATCH" in value && "SUFFIX" in value)) exit 1
            print value["MAJOR"] "." value["MINOR"] "." value["PATCH"] value["SUFFIX"]
        }'
}
