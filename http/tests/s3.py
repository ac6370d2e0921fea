"""Runs the tool on an S3 server that verifies signatures:

    s3.py TENMAP

The server is versitygw (go install github.com/versity/versitygw/cmd/versitygw@latest), found in
PATH or named by TENMAP_VERSITYGW. Exits with 77 and says so if it is missing. `make long` fetches
it, which takes minutes.
"""
import datetime
import hashlib
import hmac
import json
import os
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import time
from urllib.parse import quote

TOOL = os.path.realpath(sys.argv[1])
WORK = tempfile.mkdtemp()
KEYS = {"AWS_ACCESS_KEY_ID": "tester", "AWS_SECRET_ACCESS_KEY": "hunter2+/secret", "AWS_REGION": "eu-test-7"}
ODD = "a b+c=d&e;f'g(h)~é%20#?!/x y"


def skip(why):
    print("SKIPPED:", why)
    shutil.rmtree(WORK)
    sys.exit(77)


def write_model(path, names, seed):
    at, entries, data = 0, {}, b""
    for name in names:
        entries[name] = {"dtype": "F32", "shape": [10000], "data_offsets": [at, at + 40000]}
        data += bytes((i * seed + at) % 251 for i in range(40000))
        at += 40000
    head = json.dumps(entries).encode()
    head += b" " * (-len(head) % 8)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as out:
        out.write(struct.pack("<Q", len(head)) + head + data)


def write_bucket(bucket):
    owners = {}
    for i in range(3):
        file = f"model-0000{i + 1}-of-00003.safetensors"
        write_model(os.path.join(bucket, "models/llama", file), [f"a{i}", f"b{i}"], i + 1)
        owners.update({f"a{i}": file, f"b{i}": file})
    with open(os.path.join(bucket, "models/llama/model.safetensors.index.json"), "w", encoding="utf-8") as out:
        json.dump({"metadata": {}, "weight_map": owners}, out)
    write_model(os.path.join(bucket, ODD, "m.safetensors"), ["w"], 7)
    for i in range(1200):  # more than one page of a listing
        os.makedirs(os.path.join(bucket, "many"), exist_ok=True)
        with open(os.path.join(bucket, "many", f"{i:05}.txt"), "w", encoding="utf-8"):
            pass
    write_model(os.path.join(bucket, "many", "z.safetensors"), ["w"], 9)


def run(port, *words, code=0, **more):
    environment = {k: v for k, v in os.environ.items() if not k.startswith("AWS_") and
                   not k.lower().endswith("_proxy")}
    environment.update(KEYS, AWS_ENDPOINT_URL=f"http://127.0.0.1:{port}")
    for name, value in more.items():
        environment.pop(name) if value is None else environment.update({name: value})
    done = subprocess.run([TOOL, *words], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True, check=False, timeout=120)
    said = done.stdout + done.stderr
    if done.returncode != code or "hunter2" in said:
        sys.exit(f"{words}: exit {done.returncode}\n{said}")
    return said


def check(condition, what):
    if not condition:
        sys.exit("FAILED: " + what)


def try_port(program, served, port):
    """Starts the server. Returns it once it answers; if it exits, returns None and its output."""
    with open(os.path.join(WORK, "log"), "w", encoding="utf-8") as log:
        server = subprocess.Popen([program, "--access", KEYS["AWS_ACCESS_KEY_ID"], "--secret",
                                   KEYS["AWS_SECRET_ACCESS_KEY"], "--region", KEYS["AWS_REGION"], "--port",
                                   f"127.0.0.1:{port}", "posix", served], stdout=log, stderr=log)
    for _ in range(200):
        if server.poll() is not None:
            with open(os.path.join(WORK, "log"), encoding="utf-8") as log:
                return None, log.read()
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            break
        except OSError:
            time.sleep(0.1)
    return server, ""


def start(program):
    """
    Starts the server on a free port. Another program may take the port before the server does;
    then the next one is tried.
    """
    served = os.path.join(WORK, "served")
    os.makedirs(os.path.join(served, "bucket.one"))
    write_bucket(os.path.join(served, "bucket.one"))
    said = ""
    for _ in range(20):
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            port = s.getsockname()[1]
        server, said = try_port(program, served, port)
        if server:
            return server, port
        if "address already in use" not in said:
            break
    return skip("versitygw does not start here: " + said[-500:])


def same(port, address, local):
    here = subprocess.run([TOOL, "hash", "--model", local], stdout=subprocess.PIPE, text=True, check=True).stdout
    check(run(port, "hash", "--model", address).split()[0] == here.split()[0], address)
    print(address.split("X-Amz-Algorithm")[0], "is the same as here")


def presigned(port, key):
    """Returns an address that allows GET of one object."""
    day = datetime.datetime.now(datetime.timezone.utc).strftime("%Y%m%dT%H%M%SZ")
    scope = f"{day[:8]}/{KEYS['AWS_REGION']}/s3/aws4_request"
    query = "&".join(f"{n}={quote(v, safe='')}" for n, v in (
        ("X-Amz-Algorithm", "AWS4-HMAC-SHA256"), ("X-Amz-Credential", f"{KEYS['AWS_ACCESS_KEY_ID']}/{scope}"),
        ("X-Amz-Date", day), ("X-Amz-Expires", "600"), ("X-Amz-SignedHeaders", "host")))
    path = "/bucket.one/" + quote(key, safe="/~")
    request = f"GET\n{path}\n{query}\nhost:127.0.0.1:{port}\n\nhost\nUNSIGNED-PAYLOAD"
    text = f"AWS4-HMAC-SHA256\n{day}\n{scope}\n{hashlib.sha256(request.encode()).hexdigest()}"
    sign = ("AWS4" + KEYS["AWS_SECRET_ACCESS_KEY"]).encode()
    for step in (day[:8], KEYS["AWS_REGION"], "s3", "aws4_request", text):
        sign = hmac.new(sign, step.encode(), hashlib.sha256).digest()
    return f"http://127.0.0.1:{port}{path}?{query}&X-Amz-Signature={sign.hex()}"


def main():
    program = os.environ.get("TENMAP_VERSITYGW") or shutil.which("versitygw")
    if not program:
        skip("versitygw is not here: make long fetches it (go install github.com/versity/versitygw/cmd/versitygw@latest)")
    server, port = start(program)
    bucket = os.path.join(WORK, "served", "bucket.one")
    try:
        same(port, "s3://bucket.one/models/llama", os.path.join(bucket, "models/llama"))
        same(port, "s3://bucket.one/models/llama/", os.path.join(bucket, "models/llama"))
        same(port, "s3://bucket.one/models/llama/model.safetensors.index.json", os.path.join(bucket, "models/llama"))
        same(port, f"s3://bucket.one/{ODD}/m.safetensors", os.path.join(bucket, ODD, "m.safetensors"))
        same(port, f"s3://bucket.one/{ODD}", os.path.join(bucket, ODD, "m.safetensors"))
        same(port, presigned(port, f"{ODD}/m.safetensors"), os.path.join(bucket, ODD, "m.safetensors"))
        said = run(port, "info", presigned(port, "models/llama/model.safetensors.index.json"), code=3)
        check("signed for one file only" in said, said)
        same(port, "s3://bucket.one/many", os.path.join(bucket, "many"))
        address = "s3://bucket.one/models/llama"
        said = run(port, "info", address, code=64, AWS_SECRET_ACCESS_KEY="hunter2 another")
        check("cannot be sent" in said, said)
        said = run(port, "info", address, code=3, AWS_SECRET_ACCESS_KEY="hunter2another")
        check("no permission" in said and "SignatureDoesNotMatch" in said, said)
        said = run(port, "info", address, code=3, AWS_ACCESS_KEY_ID=None)
        check("no permission" in said and "not signed" in said, said)
        said = run(port, "info", "s3://bucket.one/none.safetensors", code=3)
        check("no such file" in said or "there is nothing at this address" in said, said)
        said = run(port, "info", "s3://no-such-bucket/x", code=3)
        check("no such bucket" in said, said)
        said = run(port, "info", address, AWS_REGION="us-west-2")
        check("3 shards" in said, said)
        print("another region than the server's is corrected by what it says")
        print("wrong keys, no keys, no such key, no such bucket: each is said")
    finally:
        server.terminate()
        server.wait()
        shutil.rmtree(WORK, ignore_errors=True)


main()
