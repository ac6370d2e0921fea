#!/bin/sh
# Uses network namespaces as hosts: Open MPI runs over TCP between them and reports the hosts, so
# all of tenmap_mpi runs as on a cluster, except for the distance.
#     mpi/tests/namespaces.sh HOSTS RANKS_PER_HOST PROGRAM...
# Runs the program there, which asks MPI for the ranks of a host. Exits with 77 and says why if
# namespaces cannot be made.
set -eu
hosts=$1 each=$2
shift 2
skip() {
    echo "skipped: $*"
    exit 77
}
[ "$(id -u)" = 0 ] || skip "only root can make network namespaces"
command -v ip >/dev/null || skip "ip (iproute2) is not here"
command -v mpirun.openmpi >/dev/null || skip "Open MPI is not here"
name=tm$$
work=$(mktemp -d)
list=
clean() {
    for i in $(seq "$hosts"); do
        ip netns del "$name-$i" 2>/dev/null || :
    done
    ip link del "$name" 2>/dev/null || :
    rm -rf "$work"
}
trap clean EXIT
trap 'exit 130' INT TERM HUP

# A bridge, and a virtual cable to each namespace.
ip link add "$name" type bridge 2>"$work/why" && ip link set "$name" up ||
    skip "no bridge can be made here: $(cat "$work/why")"
for i in $(seq "$hosts"); do
    ip netns add "$name-$i" 2>"$work/why" || skip "no namespace can be made here: $(cat "$work/why")"
    ip link add "$name.$i" type veth peer name eth0 netns "$name-$i"
    ip link set "$name.$i" master "$name" up
    ip -n "$name-$i" link set lo up
    ip -n "$name-$i" addr add "10.231.77.$i/24" dev eth0
    ip -n "$name-$i" link set eth0 up
    list=$list${list:+,}10.231.77.$i:$each
done

# Replaces ssh: agent HOST COMMAND... Each namespace has its own host name.
cat >"$work/agent" <<END
#!/bin/sh
host=\${1##*.}
shift
exec ip netns exec $name-\$host unshare --uts sh -c "hostname $name-\$host; exec \$*"
END
chmod +x "$work/agent"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
# shellcheck disable=SC2016
ip netns exec "$name-1" unshare --uts sh -c 'hostname "$1"; shift; exec "$@"' sh "$name-1" \
    timeout 300 mpirun.openmpi --host "$list" -n $((hosts * each)) --oversubscribe \
    --mca mpi_yield_when_idle 0 --mca plm_rsh_agent "$work/agent" --mca pml ob1 \
    --mca btl tcp,vader,self --mca btl_tcp_if_include 10.231.77.0/24 \
    --mca oob_tcp_if_include 10.231.77.0/24 "$@"
