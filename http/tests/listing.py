"""Serves a hub and a bucket with one long listing, and runs a command that reads it:

    listing.py KIND N COMMAND...

KIND is hub (one page), pages (of 1,000 names), shards (of two models) or s3. The command's
environment points it to the hub and the bucket, as hf://a/b and s3://a/b. The exit status is the
command's.
"""
import os
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

kind, count = sys.argv[1], int(sys.argv[2])


def name(i):
    return f"{'ab'[i % 2]}-{i:06}-of-{count:06}.safetensors" if kind == "shards" else f"file-{i:07}.txt"


def page(number):
    """Returns the body of a page, and whether there is another page."""
    size = 1000 if kind == "pages" else count
    names = [name(i) for i in range(number * size, min(count, (number + 1) * size))]
    if kind == "s3":
        keys = "".join(f"<Contents><Key>b/{n}</Key><Size>1</Size></Contents>" for n in names)
        return f"<ListBucketResult>{keys}</ListBucketResult>".encode(), False
    listing = ",".join(f'{{"type":"file","oid":"0","size":1,"path":"{n}"}}' for n in names)
    return f"[{listing}]".encode(), (number + 1) * size < count


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_GET(self):
        listed = "/tree/" in self.path or "list-type=2" in self.path
        number = int(self.path.partition("cursor=")[2] or 0)
        body, more = page(number) if listed and "snapshots" not in self.path else (b"", False)
        self.send_response_only(200 if body else 404)
        if more:
            self.send_header("Link", f'<{self.path.partition("?")[0]}?cursor={number + 1}>; rel="next"')
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
server.daemon_threads = True
threading.Thread(target=server.serve_forever, daemon=True).start()
address = f"http://127.0.0.1:{server.server_port}"
environment = {k: v for k, v in os.environ.items()
               if not k.startswith(("HF_", "HUGGING_", "AWS_")) and not k.lower().endswith("_proxy")}
environment.update(HF_ENDPOINT=address, AWS_ENDPOINT_URL=address, HF_TOKEN_PATH="/nonexistent", HF_HOME="/nonexistent")
done = subprocess.run(sys.argv[3:], env=environment, check=False)
os._exit(done.returncode if 0 <= done.returncode < 256 else 1)
