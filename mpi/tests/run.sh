#!/bin/sh
# Tests tenmap_mpi with each installed MPI (Debian's openmpi-bin and mpich), on this machine:
#     mpi/tests/run.sh LIBTENMAP_A [sample | long]
# 2, 4 and 8 ranks as 1, 2 and 4 hosts; tensors with strides; faults; a throttled source; namespaces
# as hosts; the example; the plan computed without MPI, and for random jobs. A sample takes about two
# minutes.
# Exits with 77 and says why if there is no MPI.
#     MPI_TEST_FLAGS    flags for the compiler, such as -fsanitize=address with a library built so
#     MPI_TEST_PREFIX   what to run each program with, such as valgrind; then nothing is timed
set -eu
library=$1 amount=${2:-sample}
case $amount in
# A sample runs beside other checks, which slow down four ranks that share two processors. So it
# only prints how much faster a load is, and requires only that each byte is read once.
sample) rounds_of_2=12 rounds_of_4=8 rounds_of_8=3 schedules=12 every=9 jobs=200 faster=0 ;;
long) rounds_of_2=100 rounds_of_4=60 rounds_of_8=30 schedules=200 every=1 jobs=3000 faster=3.5 ;;
*) echo "usage: $0 LIBTENMAP_A [sample | long]" >&2 && exit 2 ;;
esac
source=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM HUP
warnings="-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wstrict-prototypes -Wmissing-prototypes
          -Wundef -Wvla -Werror"
include="-I$source/include -I$source/mpi -I$source/tests/support"
keep= # under sanitizers: keeps the libraries that MPI loads
case ${MPI_TEST_FLAGS-} in *-fsanitize*) keep="$source/mpi/tests/keep_loaded.c -rdynamic" ;; esac
# More ranks than processors wait for each other's turns, so they get a higher priority if that is
# allowed.
first=
nice -n -10 true 2>/dev/null && [ "$(nice -n -10 nice 2>/dev/null)" = -10 ] && first="nice -n -10"

# run MPI RANKS PROGRAM [ARGUMENT...]: the program's first argument is its folder.
run() {
    kind=$1 count=$2 program=$3
    shift 3
    rm -rf "$work/models"
    mkdir "$work/models"
    # Yielding in each call that finds nothing costs more than it gains: the library sleeps by
    # itself.
    case $kind in
    # shellcheck disable=SC2086
    openmpi) OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 timeout 900 \
        mpirun.openmpi --oversubscribe --mca mpi_yield_when_idle 0 -n "$count" $first \
        ${MPI_TEST_PREFIX-} "$work/$program-$kind" "$work/models" "$@" ;;
    # shellcheck disable=SC2086
    mpich) timeout 900 mpiexec.mpich -n "$count" $first ${MPI_TEST_PREFIX-} \
        "$work/$program-$kind" "$work/models" "$@" ;;
    esac
}

# build MPI PROGRAM FILE [FLAG...]
build() {
    kind=$1 program=$2 file=$3
    shift 3
    # shellcheck disable=SC2086
    mpicc.$kind -std=c11 -O1 -g ${MPI_TEST_FLAGS-} $warnings $include "$source/mpi/tenmap_mpi.c" \
        "$source/mpi/tests/mpi_model.c" "$source/$file" "$source/tests/support/io_files.c" $keep "$@" \
        "$library" -lpthread -o "$work/$program-$kind"
}

build_all() {
    build "$1" equal mpi/tests/test_equal.c -Wl,--wrap=pthread_create
    build "$1" faults mpi/tests/test_faults.c -Wl,--wrap=malloc -Wl,--wrap=calloc -Wl,--wrap=realloc
    build "$1" contract mpi/tests/test_contract.c -Wl,--wrap=statvfs
    build "$1" speed mpi/tests/test_speed.c
    build "$1" strided mpi/tests/test_strided.c -DTENMAP_TOY_CONTAINER "-I$source/src" \
        "$source/src/format/container.c" "$source/tests/support/toy_container.c"
    build "$1" example mpi/example/tensor_parallel.c
}

# Every byte equals that of a plain load, and each is read once.
test_equal() {
    for n in 2 4 8; do
        eval "rounds=\$rounds_of_$n"
        for hosts in 1 2 4; do
            [ $hosts -gt $n ] || run "$1" $n equal $((n / hosts)) "$rounds"
        done
    done
    TEST_MPI_SINGLE=1 run "$1" 2 equal 1 5 1069 # without threads; some shards are a tenmap_io
}

# Tensors with strides. container.c with the toy container takes the place of the library's.
test_strided() {
    run "$1" 2 strided 1 "$rounds_of_2"
    run "$1" 4 strided 2 "$rounds_of_4"
}

# All ranks fail with the same error.
test_faults() {
    run "$1" 2 faults 1 "$schedules" "$every"
    run "$1" 4 faults 2 "$schedules" "$every"
    [ $amount = sample ] || run "$1" 8 faults 4 "$schedules" 11
}

# Arguments and error messages; also with an odd number of ranks, and with two groups on one host.
test_contract() {
    run "$1" 3 contract
    run "$1" 4 contract
}

# The example's table: everything wanted is read, and each rank reads about as much.
test_example() {
    cp "$work/models/llama.safetensors" "$work/llama.safetensors"
    cat >"$work/show-$1" <<END
#!/bin/sh
exec "$work/example-$1" "$work/llama.safetensors"
END
    chmod +x "$work/show-$1"
    run "$1" 4 show >"$work/table"
    cat "$work/table"
    awk '/of .* MB wanted/ { wanted = $(NF - 2) } /^ *[0-9]/ { read += $2; ranks++ }
         END { exit !(ranks == 4 && read > wanted * 0.9 && read < wanted * 1.1 + 0.2) }' "$work/table"
}

test_namespaces() {
    mkdir -p "$work/there"
    sh "$source/mpi/tests/namespaces.sh" 2 2 "$work/equal-openmpi" "$work/there" 0 "$rounds_of_4" ||
        [ $? = 77 ] # which it reported
}

"${CC:-cc}" -O2 -std=c11 -o "$work/plan" "$source/bench/mpi_plan.c"
"$work/plan"
# shellcheck disable=SC2086
"${CC:-cc}" -O2 -std=c11 $warnings ${MPI_TEST_FLAGS-} $include -o "$work/jobs" "$source/mpi/tests/test_plan.c"
"$work/jobs" $jobs
tested=0
for kind in openmpi mpich; do
    if ! command -v mpicc.$kind >/dev/null || ! command -v mpirun.$kind >/dev/null; then
        echo "SKIPPED: $kind is not here"
        continue
    fi
    echo "$kind:"
    build_all $kind
    test_equal $kind
    test_strided $kind
    test_contract $kind
    test_faults $kind
    test_example $kind
    if [ -z "${MPI_TEST_PREFIX-}${MPI_TEST_FLAGS-}" ]; then
        run $kind 4 speed $faster
        [ $kind != openmpi ] || test_namespaces
    fi
    tested=$((tested + 1))
done
[ $tested -gt 0 ] || { echo "skipped: neither Open MPI nor MPICH is here"; exit 77; }
