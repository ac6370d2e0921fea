#!/bin/sh
# Checks the layers of the library, as docs/architecture.md shows them, in two ways: by what each
# file includes, and by what its object file needs. Prints the files of each layer, and every
# dependency that points the wrong way.
#
#     scripts/layers.sh
#
# A folder of src/ is a layer. A file includes only headers of its own layer and of layers before it
# in the list below. No object needs a name that a later layer defines. No two files of a layer need
# each other. Kernels see only the base, and only the values see kernels.
set -eu
cd "$(dirname "$0")/.."
. scripts/sources.sh
cc=${CC:-cc}
command -v "$cc" >/dev/null || { echo "skipped: no compiler ($cc)"; exit 77; }
command -v nm >/dev/null || { echo "skipped: nm is not here"; exit 77; }
layers="base kernels os io format model values write"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM HUP
files=$(library_files)
sources=$(library_sources)

# The layer of each file: "file layer".
for file in $files; do
    layer=${file#src/}
    echo "$file ${layer%%/*}"
done >"$work/files"

# Edges by inclusion: "from-file to-file", both with their folders.
for file in $files; do
    sed -n 's/^#include "\([^"]*\)".*/\1/p' "$file" | while read -r name; do
        case $name in
        ../../include/*) ;;
        ../*) echo "$file src/${name#../}" ;;
        *) echo "$file ${file%/*}/$name" ;;
        esac
    done
done >"$work/edges"

# Edges by names: from the object that needs a name to the object that defines it.
for file in $sources; do
    object=$work/$(echo "$file" | tr '/' '_').o
    $cc -O0 -c -Iinclude "$file" -o "$object"
    nm -g "$object" | awk -v file="$file" '$(NF-1) == "U" { print "needs", $NF, file; next }
                                           NF == 3 { print "has", $NF, file }'
done >"$work/names"
awk '$1 == "has" { owner[$2] = $3; next }
     $1 == "needs" { wanted[++n] = $2 " " $3 }
     END { for (i = 1; i <= n; i++) { split(wanted[i], w, " ")
               if (w[1] in owner && owner[w[1]] != w[2]) print w[2], owner[w[1]], w[1] } }' \
    "$work/names" >"$work/needs"

awk -v layers="$layers" -v files="$work/files" -v needs="$work/needs" '
    BEGIN {
        count = split(layers, names, " ")
        for (i = 1; i <= count; i++) height[names[i]] = i
        while ((getline line < files) > 0) {
            split(line, f, " ")
            layer[f[1]] = f[2]
            if (!(f[2] in height)) { print f[1] ": no such layer: " f[2]; bad = 1 }
            else if (f[1] ~ /\.c$/) { name = f[1]; sub(/^src\/[a-z]*\//, "", name); sub(/\.c$/, "", name)
                                      house[f[2]] = house[f[2]] " " name }
        }
    }
    function allowed(from, to) {
        if (from == to) return 1
        if (from == "kernels") return to == "base"
        if (to == "kernels") return from == "values"
        return height[to] < height[from]
    }
    # Finds two files of a layer that need each other, directly or through others.
    function circle(pair,    ends, todo, seen, at, i, more, k) {
        split(pair, ends, SUBSEP)
        if (ends[1] > ends[2]) return
        todo[1] = ends[2]; k = 1; seen[ends[2]] = 1
        for (i = 1; i <= k; i++) {
            at = todo[i]
            if (at == ends[1]) { print ends[1] " and " ends[2] " need each other (" direct[pair] ")"; bad = 1; return }
            split(next_of[at], more, " ")
            for (at in more) if (!(more[at] in seen)) { seen[more[at]] = 1; todo[++k] = more[at] }
        }
    }
    {
        edges++
        if (!($2 in layer)) { print $1 " includes " $2 ", which is not there"; bad = 1 }
        else if (!allowed(layer[$1], layer[$2])) {
            print $1 " (" layer[$1] ") includes " $2 " (" layer[$2] ")"; bad = 1
        }
    }
    END {
        while ((getline line < needs) > 0) {
            split(line, n, " ")
            uses++
            if (!((n[1], n[2]) in direct)) { direct[n[1], n[2]] = n[3]; next_of[n[1]] = next_of[n[1]] " " n[2] }
            if (!allowed(layer[n[1]], layer[n[2]])) {
                print n[1] " (" layer[n[1]] ") needs " n[3] " of " n[2] " (" layer[n[2]] ")"; bad = 1
            }
        }
        for (pair in direct) circle(pair)
        for (i = 1; i <= count; i++) printf "%-8s%s\n", names[i], house[names[i]]
        printf "%d includes and %d uses of names, %s\n", edges, uses, bad ? "not all downwards" : "all downwards"
        exit bad
    }' "$work/edges"
