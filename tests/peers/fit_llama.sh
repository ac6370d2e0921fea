#!/bin/sh
# Compares what `tenmap fit` says with the buffers that llama.cpp allocates for tiny random models:
#     tests/peers/fit_llama.sh TENMAP FOLDER
# FOLDER keeps what is fetched and built: an environment with the package gguf, the sources of
# llama-cpp-python, and the libllama that they contain, for the CPU, which is given up after
# TENMAP_LLAMA_CPP_SECONDS (1200). What is already there is used. Exits with 77 and says why if
# something could not be had.
set -eu
[ $# -eq 2 ] || { echo "usage: fit_llama.sh TENMAP FOLDER"; exit 64; }
tenmap=$(realpath "$1")
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$2"
folder=$(cd "$2" && pwd)
python=$folder/python/bin/python
log=$folder/log
export PIP_DISABLE_PIP_VERSION_CHECK=1 PYTHONDONTWRITEBYTECODE=1

skip() {
    [ ! -f "$log" ] || tail -n 2 "$log"
    echo "skipped: $1"
    exit 77
}

has_packages() {
    "$python" -c 'import numpy, gguf, diskcache, jinja2, typing_extensions' 2>/dev/null
}

# Prints the folder of the unpacked sources, if there is one.
sources() {
    for found in "$folder"/llama_cpp_python-*/vendor/llama.cpp; do
        [ ! -d "$found" ] || { echo "${found%/vendor/llama.cpp}" && return; }
    done
    return 1
}

get_sources() {
    "$python" -m pip download -q --no-deps --no-binary llama-cpp-python -d "$folder" llama-cpp-python &&
        tar -xf "$folder"/llama_cpp_python-*.tar.gz -C "$folder"
}

# Only the library and its backend for the CPU; the rest of llama.cpp takes much longer.
build_library() {
    cmake -S "$1/vendor/llama.cpp" -B "$folder/build" -DCMAKE_BUILD_TYPE=None -DCMAKE_C_FLAGS=-O1 \
        -DCMAKE_CXX_FLAGS=-O1 -DBUILD_SHARED_LIBS=ON -DGGML_NATIVE=OFF -DGGML_OPENMP=OFF \
        -DLLAMA_BUILD_COMMON=OFF -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_TOOLS=OFF \
        -DLLAMA_BUILD_EXAMPLES=OFF -DLLAMA_BUILD_SERVER=OFF -DLLAMA_CURL=OFF &&
        timeout "${TENMAP_LLAMA_CPP_SECONDS:-1200}" cmake --build "$folder/build" --target llama -j 2
}

has_packages || {
    python3 -m venv "$folder/python" &&
        "$python" -m pip install -q numpy gguf diskcache jinja2 typing-extensions
} >"$log" 2>&1 || skip "the package gguf could not be fetched"
sources >/dev/null || get_sources >"$log" 2>&1 || skip "the sources of llama-cpp-python could not be fetched"
llama=$(sources) || skip "the sources of llama-cpp-python have no llama.cpp"
[ -e "$folder/build/bin/libllama.so" ] || build_library "$llama" >"$log" 2>&1 ||
    skip "llama.cpp was not built, or not in time"
LLAMA_CPP_LIB_PATH=$folder/build/bin PYTHONPATH=$llama "$python" "$here/fit_llama.py" "$tenmap"
