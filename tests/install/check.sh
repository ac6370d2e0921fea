#!/bin/sh
# Installs into its own folders and builds a consumer in every way that docs/install.md names, against
# the shared and the static library:
#     tests/install/check.sh SOURCE WORK
set -eu
source=$1 work=$2
here=$source/tests/install
rm -rf "$work"
mkdir -p "$work"
jobs=$(nproc 2>/dev/null || echo 2)
# What is installed is tested here, not how fast it is.
export CFLAGS=-O0 CMAKE_BUILD_TYPE=None

# needs PROGRAM yes|no: whether the program needs the shared library at startup.
needs() {
    found=no
    readelf -d "$1" | grep -q 'NEEDED.*libtenmap\.so\.0\]' && found=yes
    [ "$found" = "$2" ] || { echo "$1 needs libtenmap.so.0: $found, expected $2"; exit 1; }
}

# only_what_belongs TREE: holds the public headers, the library, its metadata and the tool, and
# nothing else.
only_what_belongs() {
    (cd "$1" && find . ! -type d) >"$work/installed"
    [ -s "$work/installed" ] || { echo "nothing was installed"; exit 1; }
    stray=$(grep -vE \
        -e '^\./(bin/tenmap|include/tenmap(\.h|\.hpp|_http\.h|/[a-z]+\.h|-mpi/tenmap_mpi[a-z_]*\.[ch]))$' \
        -e '^\./lib[^ ]*/(libtenmap[^/]*|pkgconfig/tenmap[^/]*\.pc|cmake/tenmap[^/]*/tenmap[^/]*\.cmake)$' \
        -e '^\./share/(man/man1/|bash-completion/|zsh/|fish/)[^ ]*tenmap' "$work/installed") || return 0
    echo "installed, but not part of the library or the tool:" $stray
    exit 1
}

# all_of_mpi TREE LIBRARIES: checks that every file that tenmap_mpi.c may include is installed, and
# that the command in docs/many-hosts.md works with this tree.
all_of_mpi() {
    (cd "$source/mpi" && ls tenmap_mpi*.[ch]) >"$work/mpi-source"
    (cd "$1/include/tenmap-mpi" && ls) | diff "$work/mpi-source" - ||
        { echo "the installed files of mpi/ are not those of the source"; exit 1; }
    command -v mpicc >/dev/null || { echo "SKIPPED: no mpicc is here for the files of mpi/"; return 0; }
    command=$(grep -E '^mpicc .*tenmap_mpi\.c' "$source/docs/many-hosts.md" | sed "s|/usr/include|$1/include|g")
    [ -n "$command" ] || { echo "docs/many-hosts.md gives no command for mpicc"; exit 1; }
    mkdir -p "$work/mpi"
    cp "$source/mpi/example/tensor_parallel.c" "$work/mpi/my_engine.c"
    (cd "$work/mpi" && C_INCLUDE_PATH=$1/include LIBRARY_PATH=$2 sh -c "$command")
    echo "the command of docs/many-hosts.md for mpicc: ok"
}

# find_it FOLDER TREE TARGET [CMAKE OPTION...]: builds the consumer with find_package.
find_it() {
    cmake -S "$here" -B "$work/$1" -DCMAKE_PREFIX_PATH="$work/$2" -DTENMAP_TARGET="$3" >/dev/null
    cmake --build "$work/$1" >/dev/null
    "$work/$1/consumer"
    [ ! -x "$work/$1/consumer_cxx" ] || "$work/$1/consumer_cxx"
}

for kind in shared static; do
    shared=ON static=ON
    [ $kind = static ] && shared=OFF
    cmake -S "$source" -B "$work/build-$kind" -DCMAKE_INSTALL_PREFIX="$work/$kind" -DTENMAP_TESTS=OFF \
        -DTENMAP_BENCH=OFF -DTENMAP_EXAMPLES=OFF -DTENMAP_SHARED=$shared -DTENMAP_STATIC=$static >/dev/null
    cmake --build "$work/build-$kind" -j "$jobs" >/dev/null
    cmake --install "$work/build-$kind" >/dev/null
    only_what_belongs "$work/$kind"
    lib=$(dirname "$(find "$work/$kind" -name 'libtenmap.*' | head -1)")
    all_of_mpi "$work/$kind" "$lib"

    flags=$(PKG_CONFIG_PATH="$lib/pkgconfig" pkg-config --cflags --libs $([ $kind = static ] && echo --static) tenmap)
    cc "$here/consumer.c" $flags -o "$work/pkgconfig-$kind"
    LD_LIBRARY_PATH="$lib" "$work/pkgconfig-$kind"
    needs "$work/pkgconfig-$kind" $([ $kind = shared ] && echo yes || echo no)
    for cxx in g++ clang++-14; do
        command -v $cxx >/dev/null || { echo "SKIPPED: $cxx is not here"; continue; }
        $cxx -std=c++17 -Wall -Wextra -Wpedantic -Werror "$here/consumer.cpp" $flags -o "$work/cxx-$kind"
        LD_LIBRARY_PATH="$lib" "$work/cxx-$kind"
        echo "pkg-config, $kind, $cxx: ok"
    done
    echo "pkg-config, $kind: ok"

    find_it "find-$kind" "$kind" tenmap::tenmap
    needs "$work/find-$kind/consumer" $([ $kind = shared ] && echo yes || echo no)
    find_it "find-static-of-$kind" "$kind" tenmap::tenmap_static
    needs "$work/find-static-of-$kind/consumer" no
    echo "find_package, $kind tree, both targets: ok"
    if [ -x "$work/find-$kind/consumer_mpi" ]; then
        echo "find_package, $kind tree, the component mpi: ok"
    else
        echo "SKIPPED: no MPI is here for the component mpi"
    fi

    if [ -x "$work/$kind/bin/tenmap" ]; then
        "$work/$kind/bin/tenmap" --version >/dev/null
        echo "the tool of the $kind tree: ok"
    fi
done

# Packagers may give absolute folders instead of folders below the prefix.
cmake -S "$source" -B "$work/build-absolute" -DCMAKE_INSTALL_PREFIX="$work/elsewhere" -DTENMAP_TESTS=OFF \
    -DTENMAP_BENCH=OFF -DTENMAP_EXAMPLES=OFF -DTENMAP_TOOL=OFF -DTENMAP_SHARED=OFF \
    -DCMAKE_INSTALL_LIBDIR="$work/absolute/lib" -DCMAKE_INSTALL_INCLUDEDIR="$work/absolute/include" >/dev/null
cmake --build "$work/build-absolute" -j "$jobs" >/dev/null
cmake --install "$work/build-absolute" >/dev/null
flags=$(PKG_CONFIG_PATH="$work/absolute/lib/pkgconfig" pkg-config --cflags --libs --static tenmap)
cc "$here/consumer.c" $flags -o "$work/pkgconfig-absolute"
"$work/pkgconfig-absolute"
echo "pkg-config, absolute folders: ok"

for target in tenmap::tenmap tenmap::tenmap_static; do
    cmake -S "$here" -B "$work/sub" -DTENMAP_SOURCE="$source" -DTENMAP_TARGET=$target >/dev/null
    cmake --build "$work/sub" -j "$jobs" >/dev/null
    "$work/sub/consumer"
    [ ! -x "$work/sub/consumer_cxx" ] || "$work/sub/consumer_cxx"
    echo "add_subdirectory, $target: ok"
done

# Prints the install tree: only the library, its headers, its metadata and the tool.
(cd "$work/shared" && find . ! -type d | LC_ALL=C sort)
