#!/bin/sh
# tenmap_load of a model on loopback over 8 connections, beside 8 curl processes that fetch the same
# bytes:
#     bench/http.sh [GIGABYTES [ROUNDS]]
# nginx serves the file from the page cache. Exits with 77 and says why if nginx, curl, Python or
# OpenSSL is missing.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
. "$root/scripts/bench.sh"
size=${1:-3} rounds=${2:-5}
[ -z "$smoke" ] || { size=0.07 rounds=1; }
PATH=$PATH:/usr/sbin:/sbin
for program in nginx curl python3; do
    command -v $program >/dev/null || { echo "skipped: $program is not here"; exit 77; }
done
build_targets bench_http 2>/dev/null && [ -x "$build/bench/bench_http" ] || {
    echo "skipped: bench_http is not built, which needs OpenSSL"
    exit 77
}

work=$folder server=
trap '[ -z "$server" ] || kill "$server" 2>/dev/null || :; rm -rf "$work"' EXIT
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
mkdir "$work/served"
python3 - "$work/served/model.safetensors" "$size" <<'END'
import json, os, struct, sys
each, count = 64 << 20, int(float(sys.argv[2]) * 1e9) // (64 << 20)
head = json.dumps({f"w{i}": {"dtype": "BF16", "shape": [each // 2], "data_offsets": [i * each, (i + 1) * each]}
                   for i in range(count)}).encode()
head += b" " * (-len(head) % 8)
block = os.urandom(each)
with open(sys.argv[1], "wb") as out:
    out.write(struct.pack("<Q", len(head)) + head)
    for _ in range(count):
        out.write(block)
END
cat >"$work/nginx.conf" <<END
daemon off; worker_processes auto; pid $work/pid; error_log $work/error.log;
$([ "$(id -u)" != 0 ] || echo "user root;")
events { worker_connections 256; }
http {
    access_log off; sendfile on; keepalive_requests 100000; root $work/served;
    client_body_temp_path $work/t1; proxy_temp_path $work/t2; fastcgi_temp_path $work/t3;
    uwsgi_temp_path $work/t4; scgi_temp_path $work/t5;
    server { listen 127.0.0.1:$port; }
}
END
nginx -p "$work" -c "$work/nginx.conf" 2>/dev/null &
server=$!
address=http://127.0.0.1:$port/model.safetensors
for _ in 1 2 3 4 5 6 7 8 9 10; do
    curl -s -o /dev/null -r 0-0 "$address" && break
    sleep 0.3
done
echo "load $(cut -d' ' -f1-3 /proc/loadavg), $(nproc) processors"
"$build/bench/bench_http" "$address" "$rounds" 8
