#!/usr/bin/env bash
# The checks of the Python package:
#     python/tests/check.sh wheel       wheel, abi3audit, leaks, the stub; the suite under python3
#                                       and the newest Python
#     python/tests/check.sh sanitize    the suite with the extension and the library under ASan and
#                                       UBSan; a build without a compiler says what to install;
#                                       random calls by hostile callers
#     python/tests/check.sh hostile N   N of these calls, under the same sanitizers
#     python/tests/check.sh free-threaded
#                                       the suite without the GIL, and the tests of threads 20 times;
#                                       on the Python that TENMAP_FREE_THREADED names, on one that is
#                                       installed, or on one that is built here from Debian's sources
#                                       (some minutes)
#     python/tests/check.sh reference   the suite with torch; the reference's own suite, on it and
#                                       on ours; transformers, peft and diffusers models, saved by
#                                       one and loaded by the other
#     python/tests/check.sh environment only makes the environment with torch for `reference`, which
#                                       TENMAP_TORCH_VENV names
# TENMAP_TORCH_VENV names the folder of the environment with torch, which is then kept for other
# checks; packages that it already has are not fetched again. The reference's suite runs with
# tensorflow and paddle if TENMAP_LONG is set.
# Reports what cannot be fetched; exits with 77 if nothing is left to check.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d "${TMPDIR:-/tmp}/tenmap-python-XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM HUP
export PIP_DISABLE_PIP_VERSION_CHECK=1 PYTHONDONTWRITEBYTECODE=1
unset PYTHONPATH TENMAP_SAFETENSORS
[ -z "${TENMAP_TORCH_VENV-}" ] || TENMAP_TORCH_VENV=$(realpath -m "$TENMAP_TORCH_VENV")
if [ -z "${TENMAP_CORPUS-}" ] && [ -d "$root/../shared/corpus" ]; then
    TENMAP_CORPUS=$(cd "$root/../shared/corpus" && pwd)
    export TENMAP_CORPUS
fi

skip() {
    echo "skipped: $*"
    exit 77
}

# quietly COMMAND...: prints its output only if it fails.
quietly() {
    "$@" >"$work/log" 2>&1 || { tail -30 "$work/log" && return 1; }
}

# environment NAME PYTHON PACKAGE...: makes a new one in $work/NAME, or uses the one with torch if
# that is to be kept.
environment() {
    local folder=$work/$1 python=$2
    if [ "$1" = torch ] && [ -n "${TENMAP_TORCH_VENV-}" ]; then
        ln -s "$TENMAP_TORCH_VENV" "$folder"
        folder=$TENMAP_TORCH_VENV
    fi
    shift 2
    quietly "$python" -m venv "$folder" && quietly "$folder/bin/pip" install -q "$@"
}

build_wheel() {
    environment build python3 build abi3audit || skip "pip could not fetch what builds the wheel"
    # From the sdist, which must be complete for that.
    quietly "$work/build/bin/python" -m build -o "$work/wheels" -Ccmake.define.TENMAP_WERROR=ON "$root" || exit 1
    wheel=$(echo "$work"/wheels/tenmap-*-cp311-abi3-*.whl)
    [ -f "$wheel" ] || { ls "$work/wheels" && exit 1; }
}

run_suite() {
    (cd "$root/python/tests" && nice "$@" -m pytest -q -p no:cacheprovider -rs .)
}

# Prints the newest Python beside python3 that is installed or that uv can fetch.
newest_python() {
    local version found
    for version in 3.14 3.13 3.12; do
        for found in $(command -v "python$version") "$HOME"/.pyenv/versions/$version.*/bin/python; do
            "$found" -c "import sys, sysconfig
sys.exit(sysconfig.get_config_var('Py_GIL_DISABLED') == 1)" 2>/dev/null && echo "$found" && return
        done
    done
    "$work/build/bin/pip" install -q uv >/dev/null 2>&1 &&
        UV_PYTHON_INSTALL_DIR=$work/pythons "$work/build/bin/uv" -q python install 3.13 >/dev/null 2>&1 &&
        echo "$work"/pythons/cpython-3.13*/bin/python3.13
}

# pyright accepts the typed program too; it fetches node for itself.
check_pyright() {
    if ! quietly "$work/stub/bin/pip" install -q pyright || ! quietly "$work/stub/bin/pyright" --version; then
        echo "skipped: pyright cannot be had"
        return
    fi
    cp "$root/python/tests/typed.py" "$work/typed.py"
    echo '{"include": ["typed.py"], "extraPaths": ["stubs"]}' >"$work/pyrightconfig.json"
    (cd "$work" && PATH=$work/stub/bin:$PATH pyright -p pyrightconfig.json)
}

# The stub matches the module: mypy accepts it, and compares it with the module at run time.
check_stub() {
    environment stub python3 mypy numpy "$wheel" || { echo "skipped: mypy cannot be had"; return; }
    mkdir -p "$work/stubs/tenmap/safetensors"
    cp "$root"/python/tenmap/*.pyi "$work/stubs/tenmap"
    cp "$root"/python/tenmap/safetensors/*.pyi "$work/stubs/tenmap/safetensors"
    # Buffers have no method before 3.12, private modules have no types, and torch is not here.
    printf '%s\n' 'tenmap\.Tensor\.__buffer__' 'tenmap\.__main__' 'tenmap\._.*' 'tenmap\.safetensors\._.*' \
        'tenmap\.torch.*' 'tenmap\.safetensors\.torch.*' 'tenmap\.safetensors\.[a-z]+\._.*' 'tenmap\.safetensors\.TensorSpec\._.*' \
        >"$work/allowed"
    (cd "$work" && export MYPYPATH=$work/stubs &&
        stub/bin/python -m mypy --strict "$root/python/tests/typed.py" &&
        stub/bin/python -m mypy.stubtest tenmap --concise --allowlist allowed --ignore-unused-allowlist)
    check_pyright
}

check_wheel() {
    build_wheel
    echo "${wheel##*/}: $(wc -c <"$wheel") bytes"
    "$work/build/bin/abi3audit" --strict --report "$wheel" >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
    echo "abi3audit: nothing that is not of the stable ABI of 3.11"
    environment empty python3 --no-index "$wheel"
    (cd "$work" && empty/bin/python -c "if True:
        import tenmap
        try: tenmap.open(tenmap.__file__)
        except tenmap.Error as error: print('alone it works too:', error)
        else: raise SystemExit('a file of Python is no model')")
    PYTHONMALLOC=malloc "$work/empty/bin/python" "$root/python/tests/leaks.py" 10000
    check_stub
    local newest python
    newest=$(newest_python) || newest=
    [ -n "$newest" ] || echo "skipped: no Python newer than $(python3 -V) is here or can be had"
    for python in python3 $newest; do
        echo "--- $("$python" -V)"
        rm -rf "$work/suite"
        environment suite "$python" numpy ml_dtypes pytest "$wheel" || skip "numpy, ml_dtypes and pytest cannot be had"
        run_suite "$work/suite/bin/python"
    done
}

# No package registry has a Python without the GIL, but Debian's mirror has the sources of 3.13, which
# it may fetch from in any release.
fetch_python_sources() {
    local mirror digest folder file
    mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 2>/dev/null | grep -v security | head -n 1)
    [ -n "$mirror" ] || return 1
    curl -fsS "${mirror}dists/trixie/main/source/Sources.xz" | xz -dc >"$work/Sources" || return 1
    read -r folder digest file <<<"$(awk '/^Package: / { wanted = $2 == "python3.13" }
        wanted && /^Directory: / { folder = $2 }
        wanted && $3 ~ /\.orig\.tar\.xz$/ && length($1) == 64 { digest = $1; file = $3 }
        END { print folder, digest, file }' "$work/Sources")"
    curl -fsS -o "$work/python.tar.xz" "$mirror$folder/$file" &&
        echo "$digest  $work/python.tar.xz" | sha256sum -c --quiet && mkdir "$work/python-sources" &&
        tar -xf "$work/python.tar.xz" -C "$work/python-sources" --strip-components=1
}

# Sets `free` to a Python without the GIL.
find_free_threaded() {
    for free in ${TENMAP_FREE_THREADED-} $(command -v python3.14t python3.13t); do
        "$free" -c "import sys; sys.exit(sys._is_gil_enabled())" 2>/dev/null && return
    done
    quietly fetch_python_sources || skip "no Python without the GIL is here, and Debian's sources cannot be had"
    free=$work/free-threaded/bin/python3.13t
    (cd "$work/python-sources" && quietly ./configure --disable-gil --disable-test-modules \
        --prefix="$work/free-threaded" CFLAGS="-O1 -g0" &&
        quietly make -j "$(nproc)" && quietly make -s install COMPILEALL_OPTS=-j1) && [ -x "$free" ]
}

# The newest numpy has no wheels for 3.13 without the GIL.
check_free_threaded() {
    find_free_threaded
    "$free" -VV
    environment suite "$free" --only-binary :all: 'numpy<2.4' ml_dtypes pytest ||
        skip "numpy, ml_dtypes and pytest cannot be had for this Python"
    quietly "$work/suite/bin/pip" wheel -q --no-deps -w "$work/wheels" -Ccmake.define.TENMAP_WERROR=ON "$root"
    ls "$work"/wheels/tenmap-*t-*.whl
    quietly "$work/suite/bin/pip" install -q --no-deps "$work"/wheels/tenmap-*t-*.whl
    export PYTHON_GIL=0
    run_suite "$work/suite/bin/python"
    for turn in {1..20}; do
        (cd "$root/python/tests" && quietly "$work/suite/bin/python" -X faulthandler -m pytest -q -p no:cacheprovider \
            test_threads.py)
    done
    echo "the tests of threads passed $turn more times"
}

# Without a C compiler, the build says in one sentence what to install, or how to get a wheel.
check_compiler() {
    mkdir -p "$work/no-compiler/bin"
    ln -sf "$(command -v ninja || echo "$work/asan/bin/ninja")" "$work/no-compiler/bin/ninja"
    ! env -u CC PATH="$work/no-compiler/bin" "$work/asan/bin/cmake" -G Ninja -S "$root/python" \
        -B "$work/no-compiler/build" >"$work/log" 2>&1 &&
        tr -s ' \n' ' ' <"$work/log" | grep -q 'No C compiler was found.*install one.*or install a wheel' && return
    tail -30 "$work/log"
    echo "a build without a compiler did not say what to install"
    return 1
}

build_sanitized() {
    environment asan python3 scikit-build-core cmake ninja numpy ml_dtypes pytest ||
        skip "pip could not fetch what builds the extension"
    quietly "$work/asan/bin/pip" install -q --no-build-isolation -Ccmake.build-type=Debug \
        -Ccmake.define.TENMAP_SANITIZE=address,undefined -Ccmake.define.TENMAP_TOOL=OFF "$root"
}

# sanitized COMMAND...: Python does not free everything at exit, and numpy maps more than ASan
# allows by default.
sanitized() {
    ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1 PYTHONMALLOC=malloc TENMAP_TEST_SANITIZED=1 \
        LD_PRELOAD="$(gcc -print-file-name=libasan.so) $(gcc -print-file-name=libubsan.so)" "$@"
}

# random_calls N: runs N calls by hostile callers, 20,000 per seed.
random_calls() {
    local left=$1 seed=1
    for (( ; left > 0; left -= 20000, seed++)); do
        sanitized "$work/asan/bin/python" "$root/python/tests/hostile_random.py" \
            $((left < 20000 ? left : 20000)) $seed
    done
}

check_sanitize() {
    build_sanitized
    check_compiler
    sanitized run_suite "$work/asan/bin/python"
    random_calls 5000
}

check_hostile() {
    build_sanitized
    random_calls "$1"
}

# compare_on PYTHON FOLDER ARGUMENT...: runs the reference's suite in FOLDER, on the reference and
# on ours.
compare_on() {
    local python=$1 folder=$2
    shift 2
    rm -f "$work/reference.xml" "$work/ours.xml"
    (cd "$folder" && nice "$python" -m pytest -q -p no:cacheprovider --junitxml="$work/reference.xml" \
        "$@") >"$work/reference.log" 2>&1 || tail -5 "$work/reference.log"
    (cd "$folder" && nice "$python" -m tenmap.safetensors -m pytest -q -p no:cacheprovider \
        --junitxml="$work/ours.xml" "$@") >"$work/ours.log" 2>&1 || tail -40 "$work/ours.log"
    "$python" "$root/python/tests/compare_suites.py" "$work/reference.xml" "$work/ours.xml" ${may_end:+--may-end}
}

# check_alone FOLDER: tensorflow and paddle crash a process that loads both, so each gets its own.
check_alone() {
    local folder=$1 name packages may_end=yes # the reference crashes in paddle's slices
    environment alone python3 numpy ml_dtypes pytest fsspec safetensors==0.8.0 "$wheel"
    while read -r name packages; do
        # shellcheck disable=SC2086
        if quietly "$work/alone/bin/pip" install -q $packages </dev/null; then
            compare_on "$work/alone/bin/python" "$folder" "tests/test_${name}_comparison.py" </dev/null
        else
            echo "skipped: $name could not be fetched"
        fi
    done <<<"tf tensorflow-cpu h5py
paddle paddlepaddle"
}

# compare_version VERSION PYTHON: the names and signatures of this version of the reference, and its
# suite, side by side with ours. `left` has the parts that cannot run.
compare_version() {
    local version=$1 python=$2 installed=$work/reference-$1
    (cd "$work" && quietly torch/bin/pip download -q --no-deps --no-binary safetensors "safetensors==$version") ||
        skip "the sources of safetensors $version could not be fetched"
    tar -xf "$work/safetensors-$version.tar.gz" -C "$work"
    quietly "$work/torch/bin/pip" install -q --no-deps --target "$installed" "safetensors==$version"
    echo "--- safetensors $version"
    (
        export PYTHONPATH=$installed
        cd "$work"
        "$python" "$root/python/tests/compare_names.py" dump "$work/names-$version.json"
        "$python" -m tenmap.safetensors "$root/python/tests/compare_names.py" dump "$work/names-ours.json"
        "$python" "$root/python/tests/compare_names.py" compare "$work/names-$version.json" "$work/names-ours.json"
        compare_on "$python" "$work/safetensors-$version/bindings/python" "${left[@]}" tests
    )
}

torch_environment() {
    environment torch python3 torch numpy ml_dtypes pytest fsspec safetensors==0.8.0 ||
        skip "torch, numpy and safetensors 0.8.0 could not be fetched"
    quietly "$work/torch/bin/pip" install -q flax || echo "skipped: flax could not be fetched"
    quietly "$work/torch/bin/pip" install -q transformers peft diffusers ||
        echo "skipped: transformers, peft and diffusers could not be fetched"
}

check_reference() {
    build_wheel
    torch_environment
    # Installs the wheel of these sources, whatever version the environment has.
    quietly "$work/torch/bin/pip" install -q --force-reinstall --no-deps "$wheel"
    local python=$work/torch/bin/python folder
    run_suite "$python"
    local left=(--ignore=tests/test_tf_comparison.py --ignore=tests/test_paddle_comparison.py)
    "$python" -c 'import flax' 2>/dev/null || left+=(--ignore=tests/test_flax_comparison.py)
    compare_version 0.8.0 "$python"
    compare_version 0.9.0rc1 "$python"
    folder=$work/safetensors-0.8.0/bindings/python
    if [ -n "${TENMAP_LONG-}" ]; then
        check_alone "$folder"
    else
        echo "skipped: tensorflow and paddle run in make long"
    fi
    "$python" -c 'import transformers' 2>/dev/null || { echo "skipped: transformers is not here" && return; }
    local script=$root/python/tests/round_trip.py
    "$python" "$script" save "$work/by-reference"
    "$python" -m tenmap.safetensors "$script" load "$work/by-reference"
    "$python" -m tenmap.safetensors "$script" save "$work/by-tenmap"
    "$python" "$script" load "$work/by-tenmap"
}

case ${1-} in
wheel) check_wheel ;;
sanitize) check_sanitize ;;
hostile) check_hostile "${2:?how many calls}" ;;
free-threaded) check_free_threaded ;;
reference) check_reference ;;
environment)
    : "${TENMAP_TORCH_VENV:?names the folder of the environment}"
    torch_environment
    ;;
*) echo "usage: python/tests/check.sh wheel|sanitize|hostile N|free-threaded|reference|environment" >&2 && exit 2 ;;
esac
