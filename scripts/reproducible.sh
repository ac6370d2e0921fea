#!/bin/sh
# Builds and installs the library twice, in folders with different names, under different umasks,
# time zones, locales, source dates and build dates, and compares every installed byte:
#     scripts/reproducible.sh
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM HUP

# make_tree NAME PLACE DATE: builds and installs a copy of the sources that has this date.
make_tree() {
    place=$work/$1/$2
    mkdir -p "$place"
    (cd "$root" && tar -cf - --exclude=./build --exclude=./.git .) | tar -xf - -C "$place"
    find "$place" -exec touch -h -d "$3" {} +
    # The date that compilers and CMake use as the present, so that an embedded date would differ.
    SOURCE_DATE_EPOCH=$(date -u -d "$3" +%s)
    export SOURCE_DATE_EPOCH
    cmake -S "$place" -B "$place/out-$1" -DCMAKE_INSTALL_PREFIX=/usr -DCMAKE_BUILD_TYPE=RelWithDebInfo \
        -DTENMAP_TESTS=OFF -DTENMAP_BENCH=OFF -DTENMAP_EXAMPLES=OFF >/dev/null
    cmake --build "$place/out-$1" -j "$(nproc)" >/dev/null
    DESTDIR="$work/tree-$1" cmake --install "$place/out-$1" >/dev/null
    (cd "$work/tree-$1" && find . -type f -exec sha256sum {} + | LC_ALL=C sort -k2) >"$work/$1.sums"
}

(umask 022 && TZ=UTC LC_ALL=C make_tree one a 2020-01-01)
(umask 077 && TZ=Asia/Kathmandu LC_ALL=C.UTF-8 make_tree two another/much/longer/path 2024-06-07)
if ! diff "$work/one.sums" "$work/two.sums"; then
    echo "the two builds differ"
    exit 1
fi
[ -s "$work/one.sums" ] || { echo "nothing was installed"; exit 1; }
cat "$work/one.sums"
echo "the $(wc -l <"$work/one.sums") files of the two builds are the same, byte for byte"
