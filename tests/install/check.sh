#!/bin/sh
# Installs into a folder of its own and builds a consumer in each of the three ways.
set -eu
source=$1 work=$2
here=$source/tests/install
rm -rf "$work"
mkdir -p "$work"

for kind in shared static; do
    shared=ON static=ON
    [ $kind = static ] && shared=OFF
    cmake -S "$source" -B "$work/build-$kind" -DCMAKE_INSTALL_PREFIX="$work/$kind" -DTENMAP_TESTS=OFF \
        -DTENMAP_BENCH=OFF -DTENMAP_EXAMPLES=OFF -DTENMAP_SHARED=$shared -DTENMAP_STATIC=$static >/dev/null
    cmake --build "$work/build-$kind" >/dev/null
    cmake --install "$work/build-$kind" >/dev/null
    lib=$(dirname "$(find "$work/$kind" -name 'libtenmap.*' | head -1)")

    flags=$(PKG_CONFIG_PATH="$lib/pkgconfig" pkg-config --cflags --libs $([ $kind = static ] && echo --static) tenmap)
    cc "$here/consumer.c" $flags -o "$work/pkgconfig-$kind"
    LD_LIBRARY_PATH="$lib" "$work/pkgconfig-$kind"
    echo "pkg-config, $kind: ok"

    cmake -S "$here" -B "$work/find-$kind" -DCMAKE_PREFIX_PATH="$work/$kind" >/dev/null
    cmake --build "$work/find-$kind" >/dev/null
    "$work/find-$kind/consumer"
    echo "find_package, $kind: ok"
done

cmake -S "$here" -B "$work/sub" -DTENMAP_SOURCE="$source" >/dev/null
cmake --build "$work/sub" >/dev/null
"$work/sub/consumer"
echo "add_subdirectory: ok"
