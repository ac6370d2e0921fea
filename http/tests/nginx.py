"""Runs the tool on models that nginx serves in realistic ways:

    nginx.py TENMAP [NGINX]

Plain; over TLS with a certificate of our own authority, and HTTP/2; and behind a front end that
mimics a hub. The front end answers with 302, the linked headers and an address on another host,
with another certificate, that expires. It expires after a number of requests, not of seconds, so
that the result does not depend on how busy the machine is. The bytes are compared with a local copy
of the model, for every dtype; nginx's own log gives the numbers of bytes and requests. Then a
sparse model of 100 GB in 200 shards. NGINX is the program to run if nginx is not installed. Exits
with 77 and says why if neither is there.
"""
import json
import os
import random
import re
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import time

TOOL = os.path.realpath(sys.argv[1])
WORK = tempfile.mkdtemp()
COMMIT = "0123456789abcdef0123456789abcdef01234567"
DTYPES = {"F64": 64, "F32": 32, "F16": 16, "BF16": 16, "I64": 64, "I32": 32, "I16": 16, "I8": 8, "U64": 64,
          "U32": 32, "U16": 16, "U8": 8, "BOOL": 8, "F8_E4M3": 8, "F8_E5M2": 8, "F8_E8M0": 8, "C64": 64,
          "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6}
GB = 10 ** 9
USES = 3        # requests that an expiring ticket allows
PATIENCE = 120  # seconds for a step that takes none: more means a hang


def skip(why):
    print("SKIPPED:", why)
    shutil.rmtree(WORK)
    sys.exit(77)


def hold_ports(count):
    """Returns bound sockets that do not listen: nginx shares their ports, which stay reserved."""
    holders = [socket.socket() for _ in range(count)]
    for s in holders:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        s.bind(("127.0.0.1", 0))
    return holders


# Models.

def header(tensors):
    """Returns the length field and text of a header for [(name, dtype, shape, bytes)], padded to
    8."""
    entries, at = {}, 0
    for name, dtype, shape, size in tensors:
        entries[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(entries, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text, at


def write_index(folder, owners):
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "model.safetensors.index.json"), "w", encoding="utf-8") as out:
        json.dump({"metadata": {}, "weight_map": owners}, out)


def write_small(folder):
    """Writes a tensor of each dtype, in three shards, some of them longer than the first read."""
    dice, owners = random.Random(1), {}
    names = list(DTYPES)
    os.makedirs(folder)
    for shard in range(3):
        tensors = []
        for dtype in names[shard::3]:
            rows = dice.choice([8, 64, 3000])
            tensors.append((f"w.{dtype}", dtype, [rows, 40], rows * 40 * DTYPES[dtype] // 8))
        file = f"model-0000{shard + 1}-of-00003.safetensors"
        with open(os.path.join(folder, file), "wb") as out:
            out.write(header(tensors)[0])
            for _, dtype, _, length in tensors:
                data = dice.randbytes(length)
                out.write(bytes(b & 1 for b in data) if dtype == "BOOL" else data)
        owners.update({t[0]: file for t in tensors})
    write_index(folder, owners)


def write_large(folder):
    """Writes two shards that take more requests than an expiring ticket allows, of 4 MiB each."""
    owners = {}
    os.makedirs(folder)
    for shard in range(2):
        file, size = f"model-0000{shard + 1}-of-00002.safetensors", (USES + 3) * (4 << 20)
        with open(os.path.join(folder, file), "wb") as out:
            out.write(header([(f"w{shard}", "U8", [size], size)])[0] + random.Random(shard).randbytes(size))
        owners[f"w{shard}"] = file
    write_index(folder, owners)


def write_sparse(folder, shards, total):
    """Writes headers of real length, followed by holes except for one tensor at the end."""
    owners = {}
    os.makedirs(folder)
    for shard in range(shards):
        count = 60
        each = total // shards // count // 4096 * 4096
        tensors = [(f"model.layers.{shard}.mlp.experts.{i}.down_proj.weight", "BF16", [each // 4096, 2048], each)
                   for i in range(count)]
        tensors.append((f"model.layers.{shard}.norm.weight", "F32", [256], 1024))
        head, size = header(tensors)
        file = f"model-{shard + 1:05}-of-{shards:05}.safetensors"
        with open(os.path.join(folder, file), "wb") as out:
            out.write(head)
            out.truncate(len(head) + size)
            out.seek(len(head) + size - 1024)
            out.write(random.Random(shard).randbytes(1024))
        owners.update({t[0]: file for t in tensors})
    write_index(folder, owners)


def write_odd(folder):
    """Writes shards whose names mean something else in an address."""
    owners = {}
    os.makedirs(folder)
    for i, file in enumerate(["we ird?.%41#é.safetensors", "b%2Fc+d&e;f.safetensors"]):
        head, size = header([(f"odd{i}", "U8", [200000], 200000)])
        with open(os.path.join(folder, file), "wb") as out:
            out.write(head + random.Random(i).randbytes(size))
        owners[f"odd{i}"] = file
    write_index(folder, owners)


# Certificates: of an authority, and of each of two hosts.

def openssl(*words):
    subprocess.run(["openssl", *words], cwd=WORK, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def make_certificates():
    openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", "ca.key", "-out", "ca.pem", "-days", "2",
            "-subj", "/CN=tenmap test authority")
    for name, alt in (("hub", "DNS:localhost"), ("cdn", "IP:127.0.0.1"), ("wrong", "DNS:elsewhere.test")):
        with open(os.path.join(WORK, name + ".ext"), "w", encoding="utf-8") as out:
            out.write(f"subjectAltName={alt}\n")
        openssl("req", "-newkey", "rsa:2048", "-nodes", "-keyout", name + ".key", "-out", name + ".csr", "-subj",
                "/CN=" + name)
        openssl("x509", "-req", "-in", name + ".csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-out",
                name + ".pem", "-days", "2", "-extfile", name + ".ext")


CONFIG = """
daemon off; master_process off; worker_processes 1; pid {work}/pid; error_log {work}/error.log;
{user}
events {{ worker_connections 256; }}
http {{
    log_format counted '$server_port $server_protocol $status $body_bytes_sent $request_method "$http_range" '
                       '$request_uri';
    access_log {work}/access.log counted;
    client_body_temp_path {work}/t1; proxy_temp_path {work}/t2; fastcgi_temp_path {work}/t3;
    uwsgi_temp_path {work}/t4; scgi_temp_path {work}/t5;
    sendfile on; keepalive_requests 100000; root {work}/served;
    # Every answer of the hub has a ticket of its own. One for the model "expiring" is good for {uses} requests and
    # one more in every minute: that is the signature that expires.
    map $request_uri $counted {{ "~^/(?<given>[0-9a-f]+)/expiring/" $given; }}
    limit_req_zone $counted zone=tickets:1m rate=1r/m; limit_req_status 403; limit_req_log_level info;
    server {{ listen 127.0.0.1:{plain} reuseport; }}
    server {{
        listen 127.0.0.1:{tls} reuseport ssl http2; ssl_certificate {work}/hub.pem; ssl_certificate_key {work}/hub.key;
    }}
    server {{
        listen 127.0.0.1:{wrong} reuseport ssl; ssl_certificate {work}/wrong.pem; ssl_certificate_key {work}/wrong.key;
    }}
    server {{
        listen 127.0.0.1:{hub} reuseport ssl http2; ssl_certificate {work}/hub.pem; ssl_certificate_key {work}/hub.key;
        location ~ ^/org/(?<model>[^/]+)/resolve/(?<revision>[^/]+)/(?<name>[^/]+)$ {{
            if ($http_authorization != "Bearer hunter2") {{ return 401; }}
            if (!-f {work}/served/$model/$name) {{ return 404; }}
            add_header X-Linked-ETag '"sha-$name"'; add_header X-Repo-Commit {commit};
            return 302 https://127.0.0.1:{cdn}/$request_id/$model/$name?Signature=hunter2;
        }}
        location ~ ^/api/models/org/(?<model>[^/]+)/tree/ {{
            if ($http_authorization != "Bearer hunter2") {{ return 401; }}
            default_type application/json;
            try_files /$model.tree.json =404;
        }}
    }}
    server {{
        listen 127.0.0.1:{cdn} reuseport ssl http2; ssl_certificate {work}/cdn.pem; ssl_certificate_key {work}/cdn.key;
        location ~ ^/[0-9a-f]+/(?<rest>.+)$ {{
            if ($http_authorization) {{ return 400; }}
            if ($arg_signature != hunter2) {{ return 400; }}
            limit_req zone=tickets burst={burst} nodelay;
            rewrite ^ /$rest break;
        }}
    }}
}}
"""


class Nginx:
    def __init__(self):
        program = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin:/sbin")
        if not program and len(sys.argv) > 2:
            program = shutil.which(sys.argv[2])
        if not program or not shutil.which("openssl"):
            skip("nginx or openssl is not here (Debian: nginx-light, openssl)")
        make_certificates()
        names = ("plain", "tls", "wrong", "hub", "cdn")
        self.holders = hold_ports(len(names))
        self.ports = dict(zip(names, (s.getsockname()[1] for s in self.holders)))
        with open(os.path.join(WORK, "nginx.conf"), "w", encoding="utf-8") as out:
            out.write(CONFIG.format(work=WORK, commit=COMMIT, user="user root;" if os.getuid() == 0 else "",
                                    uses=USES, burst=USES - 1, **self.ports))
        with open(os.path.join(WORK, "said"), "w", encoding="utf-8") as said:
            self.process = subprocess.Popen([program, "-p", WORK, "-c", os.path.join(WORK, "nginx.conf")],
                                            stderr=said)
        self.marks = self.read = 0
        self.await_start()

    def await_start(self):
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            try:
                return self.mark()
            except OSError:
                if self.process.poll() is not None:
                    with open(os.path.join(WORK, "said"), encoding="utf-8") as log:
                        sys.exit("nginx does not start: " + log.read())
                time.sleep(0.05)
        return sys.exit("nginx does not answer")

    def mark(self):
        """Sends a request of our own. The single worker logs its earlier answers before it reads
        this one."""
        self.marks += 1
        with socket.create_connection(("127.0.0.1", self.ports["plain"]), PATIENCE) as s:
            s.sendall(f"GET /mark-{self.marks} HTTP/1.0\r\n\r\n".encode())
            while s.recv(4096):
                pass
        return f"/mark-{self.marks}\n"

    def requests(self):
        """Returns what was logged since the last call: (protocol, status, bytes, method, range,
        address)
        for each request."""
        mark, end, text = self.mark(), time.monotonic() + PATIENCE, ""
        while not text.endswith(mark):
            check(time.monotonic() < end, "nginx does not log")
            with open(os.path.join(WORK, "access.log"), encoding="utf-8") as log:
                log.seek(self.read)
                text = log.read()
            time.sleep(0.01)
        self.read += len(text.encode())
        found = []
        for line in text.splitlines():
            m = re.match(r'\d+ (\S+) (\d+) (\d+) (\S+) "(.*?)" (.*)', line)
            if m and m[4] != "-" and not m[6].startswith("/mark-"):
                found.append((m[1], int(m[2]), int(m[3]), m[4], m[5], m[6]))
        return found

    def stop(self):
        self.process.terminate()
        self.process.wait()
        for s in self.holders:
            s.close()


def run(*words, code=0):
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("AWS_", "HF_")) and
                   not k.lower().endswith("_proxy")}
    environment.update(CURL_CA_BUNDLE=os.path.join(WORK, "ca.pem"), HF_TOKEN="hunter2", HF_ENDPOINT=HUB,
                       HF_HOME="/nonexistent")
    done = subprocess.run([TOOL, *words], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True, errors="replace", check=False, timeout=600)
    if done.returncode != code or "hunter2" in done.stdout + done.stderr:
        sys.exit(f"{words}: exit {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout, done.stderr


def moved(said):
    m = re.search(r"moved (\d+) bytes in (\d+) requests", said)
    return int(m[1]), int(m[2])


def check(condition, what):
    if not condition:
        sys.exit("FAILED: " + what)


def small_models(nginx):
    here = os.path.join(WORK, "served", "small")
    index = "small/model.safetensors.index.json"
    places = {"plain": f"http://127.0.0.1:{nginx.ports['plain']}/{index}",
              "TLS, HTTP/2": f"https://localhost:{nginx.ports['tls']}/{index}",
              "hub": "hf://org/small"}
    wanted = run("hash", "--tensors", here)[0]
    nginx.requests()
    for name, address in places.items():
        check(run("hash", "--tensors", address)[0] == wanted, f"{name}: fingerprints differ")
        seen = nginx.requests()
        check(all(r[3] == "GET" for r in seen), f"{name}: other methods than GET")
        check(all(r[1] in (206, 302) or r[4] == "-" for r in seen), f"{name}: {seen}")
        if name != "plain":
            check(all(r[0] == "HTTP/2.0" for r in seen), f"{name}: not HTTP/2: {seen}")
        print(f"{name}: fingerprints of {len(DTYPES)} dtypes are the same; {len(seen)} requests")
        for dtype in DTYPES:
            for words in ([f"w.{dtype}", "[2:5, 3:37]"], [f"w.{dtype}", "[-1]"]) if DTYPES[dtype] >= 8 else ():
                line = ["get", None, *words, "--raw-values"]
                line[1] = here
                a = run(*line)[0]
                line[1] = address
                check(run(*line)[0] == a, f"{name}: {words}")
        nginx.requests()
    print("slices of all of them are the same")


def odd_names(nginx):
    here = os.path.join(WORK, "served", "odd")
    write_odd(here)
    for address in (f"http://127.0.0.1:{nginx.ports['plain']}/odd/", f"https://localhost:{nginx.ports['tls']}/odd/"):
        address += "model.safetensors.index.json"
        check(run("hash", "--tensors", address)[0] == run("hash", "--tensors", here)[0], "names that are odd")
        for name in ("odd0", "odd1"):
            a, b = (run("get", place, name, "[-9:]", "--raw-values")[0] for place in (here, address))
            check(a == b, f"{name} of a shard whose name is odd")
    nginx.requests()
    print("shards whose names hold ? % # & are found")


def certificates(nginx):
    said = run("info", f"https://localhost:{nginx.ports['wrong']}/small/x", code=3)[1]
    check("certificate is not trusted" in said, said)
    os.rename(os.path.join(WORK, "ca.pem"), os.path.join(WORK, "ca.kept"))
    shutil.copy(os.path.join(WORK, "wrong.pem"), os.path.join(WORK, "ca.pem"))
    said = run("info", f"https://localhost:{nginx.ports['tls']}/small/x", code=3)[1]
    check("certificate is not trusted" in said, said)
    os.rename(os.path.join(WORK, "ca.kept"), os.path.join(WORK, "ca.pem"))
    print("a certificate of another host, and one of an unknown authority, are refused")


def expiring(nginx):
    """Reads for longer than a ticket lives: the client gets a new one, and nothing changes."""
    local, far = os.path.join(WORK, "served", "expiring"), "hf://org/expiring"
    write_large(local)
    write_tree("expiring")
    nginx.requests()
    # One thread, because threads share tickets.
    lines = [run("hash", "--tensors", "-j", "1", place)[0] for place in (far, local)]
    check(lines[0] == lines[1], "behind an expiring address")
    refused, served = {}, set()
    for _, status, _, method, asked, address in nginx.requests():
        ticket, file = address.split("?")[0].split("/")[1], address.split("?")[0].split("/")[-1]
        check(method == "GET" and status in (200, 206, 302, 403), f"{status} to {method} {address}")
        if status == 403:
            refused[file, asked] = ticket
        elif status == 206 and refused.get((file, asked), ticket) != ticket:
            served.add((file, asked))
    check(refused and served == set(refused), f"expired: {refused}, and asked for anew: {served}")
    print(f"{len(refused)} addresses expired, and were asked for anew")


def sparse(nginx):
    shards, total = 200, 100 * GB
    folder = os.path.join(WORK, "served", "sparse")
    write_sparse(folder, shards, total)
    write_tree("sparse")
    size = sum(os.path.getsize(os.path.join(folder, f)) for f in os.listdir(folder))
    index = os.path.getsize(os.path.join(folder, "model.safetensors.index.json"))
    name = "model.layers.123.norm.weight"
    here = run("get", folder, name, "--raw-values")[0]
    nginx.requests()
    for place, address, each in (("plain", f"http://127.0.0.1:{nginx.ports['plain']}/sparse/"
                                  "model.safetensors.index.json", 1), ("hub", "hf://org/sparse", 2)):
        begun = time.time()
        said = run("info", "--traffic", address)[1]
        seconds = time.time() - begun
        bytes_moved, requests = moved(said)
        logged = nginx.requests()
        print(f"{place}: info of {size / GB:.1f} GB in {shards} shards: {bytes_moved} bytes "
              f"({bytes_moved / size * 1000:.3f} promille), {requests} requests, {seconds:.1f} s")
        check(len(logged) == requests, f"nginx logged {len(logged)} requests")
        check(bytes_moved < size / 2000, "more than half a promille")
        check(requests <= each * (shards + 1) + 16, "more requests than one per shard and hop")
        out, said = run("get", "--traffic", address, name, "--raw-values")
        bytes_moved, requests = moved(said)
        logged = nginx.requests()
        print(f"{place}: get of {name}: {bytes_moved} bytes, {requests} requests; the index has {index}, the tensor "
              "1024, a first read 131072")
        check(out == here, "other values")
        for words in (["check"], ["report", "--no-stats", "-f", "-o", os.path.join(WORK, "page.html")]):
            begun = time.time()
            asked = moved(run(words[0], "--traffic", address, *words[1:])[1])[1]
            print(f"{place}: {words[0]}: {asked} requests, {time.time() - begun:.1f} s")
            check(asked <= each * (shards + 1) + 16, "more requests than one per shard and hop")
        nginx.requests()
        check(bytes_moved <= index + 1024 + 2 * 131072 + 20000, "more than index, header and tensor")
        check(requests <= 12, "too many requests")


def large_tensor(nginx):
    """A tensor that is exported arrives in several ranges at a time, and is the same."""
    name, files = "w.large", [os.path.join(WORK, n) for n in ("a", "b")]
    folder = os.path.join(WORK, "served", "large")
    os.makedirs(folder)
    head, size = header([(name, "BF16", [10000, 3000], 60000000)])
    with open(os.path.join(folder, "model.safetensors"), "wb") as out:
        out.write(head + random.Random(5).randbytes(size))
    places = folder, f"http://127.0.0.1:{nginx.ports['plain']}/large/model.safetensors"
    for words in (["--bytes"], ["--bytes", "--as", "f32"]):
        nginx.requests()
        for place, file in zip(places, files):
            run("get", place, name, *words, "-f", "-o", file)
        with open(files[0], "rb") as a, open(files[1], "rb") as b:
            check(a.read() == b.read(), f"{words} of a large tensor")
        seen = [r[2] for r in nginx.requests()]
        check(max(seen) <= 5 << 20 and sum(seen) < 61000000, f"{words}: {seen}")
        print(f"get -o {' '.join(words)} of 60 MB: {len(seen)} requests")


def write_tree(model):
    folder = os.path.join(WORK, "served", model)
    with open(folder + ".tree.json", "w", encoding="utf-8") as out:
        json.dump([{"type": "file", "path": name} for name in sorted(os.listdir(folder))], out)


def main():
    nginx = Nginx()
    try:
        write_small(os.path.join(WORK, "served", "small"))
        write_tree("small")
        globals()["HUB"] = f"https://localhost:{nginx.ports['hub']}"
        small_models(nginx)
        odd_names(nginx)
        large_tensor(nginx)
        certificates(nginx)
        expiring(nginx)
        sparse(nginx)
    finally:
        nginx.stop()
        shutil.rmtree(WORK, ignore_errors=True)


main()
