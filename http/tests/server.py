"""A misbehaving server on loopback that runs a program against itself:

    server.py PROGRAM [ARGUMENT...]

The program's first argument is the server's address (http://127.0.0.1:PORT). Its second is an empty
folder whose files are served at /files/NAME and as hf://demo/model. The exit status is the
program's. The first component of a path names a case below, so that each test has its own state.
The bytes of all other files are those of pattern(), which the program computes too.
"""
import hashlib
import hmac
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
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import quote, unquote

SIZE = 1_000_003
DATE = "Wed, 21 Oct 2015 07:28:00 GMT"
COMMIT = "0123456789abcdef0123456789abcdef01234567"
ODD_KEY = "a b+c=d&e?f#g%20é~'(x)"
SESSION = "hunter2/session+token=="


def pattern(size):
    return bytes((i * 131 + (i >> 8) * 17 + (i >> 16)) & 255 for i in range(size))


DATA = pattern(SIZE)
SERVED = tempfile.mkdtemp()
EVIL = "\x1b]0;owned\x07\x1b[31m\x9b2J"
EVIL_TOKENIZER = "tokenizer\x1b[31m.json"
EVIL_NAMES = ["model.safetensors", "config.json", EVIL_TOKENIZER, "\x1b[2J.safetensors.txt", "../x.safetensors",
              "a\nb", "tokenizer" + "y" * 5000]
# Listings of a hub: names on a page, a name, number of pages, seconds for each.
LISTINGS = {"crowd": (1_100_000, "a", 1, 0), "bulky": (900_000, "a" * 70, 1, 0), "heavy": (100_000, "b" * 500, 9, 0),
            "endless-pages": (0, "", 2000, 0), "slow-pages": (0, "", 60, .15), "wide": (40_000, "w" * 1000, 2, 0),
            "shards": (250_000, "c.safetensors", 1, 0)}
counts, lock = {}, threading.Lock()


def count(key):
    """Returns how often this was called with the key before."""
    with lock:
        counts[key] = counts.get(key, 0) + 1
        return counts[key] - 1


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 30

    def log_message(self, *_):
        pass

    def setup(self):
        super().setup()
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    # Answers.

    def head(self, status, headers, length=0):
        self.send_response_only(status)
        for name, value in headers.items():
            self.send_header(name, value)
        if length is not None:
            self.send_header("Content-Length", str(length))
        self.end_headers()

    def empty(self, status, headers=None):
        self.head(status, headers or {})

    def say(self, status, body, headers=None):
        self.head(status, headers or {}, len(body))
        self.wfile.write(body)

    def chunked(self, body):
        for at in range(0, len(body), 1000):
            part = body[at:at + 1000]
            self.wfile.write(b"%x\r\n%s\r\n" % (len(part), part))
        self.wfile.write(b"0\r\n\r\n")

    def reset(self):
        self.wfile.flush()
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()
        self.close_connection = True

    # Ranges.

    def asked(self, size=SIZE):
        text = self.headers["Range"]
        first, last = text.removeprefix("bytes=").split("-")
        return int(first), min(int(last), size - 1)

    def part(self, tag='"v1"', date=DATE, data=DATA, body=True, shift=0, total=None, extra=None):
        """Sends the headers of a correct answer, and its body unless the case sends one itself."""
        if self.headers["If-Match"] and self.headers["If-Match"] != tag:
            self.empty(412)
            return None
        if self.headers["If-Unmodified-Since"] and self.headers["If-Unmodified-Since"] != date:
            self.empty(412)
            return None
        first, last = self.asked(len(data))
        if first >= len(data):
            self.empty(416, {"Content-Range": f"bytes */{len(data)}"})
            return None
        headers = {"Content-Range": f"bytes {first + shift}-{last + shift}/{total or len(data)}"}
        if tag:
            headers["ETag"] = tag
        if date:
            headers["Last-Modified"] = date
        headers.update(extra or {})
        wanted = data[first:last + 1]
        chunked = "Transfer-Encoding" in headers
        self.head(206, headers, None if chunked else len(wanted))
        if body:
            self.chunked(wanted) if chunked else self.wfile.write(wanted)
        return wanted

    # Dispatch.

    def do_HEAD(self):
        self.empty(405)

    def do_GET(self):
        parts = self.path.split("?")[0].strip("/").split("/")
        case = getattr(self, "case_" + parts[0].replace("-", "_"), None)
        wanted = "Range" in self.headers or parts[0] == "api" or "list-type=2" in self.path
        if "If-Range" in self.headers or self.headers["Accept-Encoding"] != "identity" or not wanted:
            return self.empty(400)
        if not case:
            return self.empty(404)
        try:
            case(parts)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    # Cases: correct behavior.

    def case_plain(self, parts):
        self.part()

    def case_chunked(self, parts):
        self.part(extra={"Transfer-Encoding": "chunked"})

    def case_weak(self, parts):
        if "If-Match" in self.headers:
            return self.empty(400)
        self.part(tag='W/"v1"')

    def case_bare(self, parts):
        if "If-Match" in self.headers or "If-Unmodified-Since" in self.headers:
            return self.empty(400)
        self.part(tag=None, date=None)

    def case_must_match(self, parts):
        """Every request except the first carries the tag."""
        if count("must-match") and self.headers["If-Match"] != '"v1"':
            return self.empty(400)
        self.part()

    def case_odd_name(self, parts):
        self.part() if self.path == "/odd-name/a%20b%25%23%C3%A9" else self.empty(404)

    def case_small(self, parts):
        self.say(200, DATA[:1000])

    def case_small_chunked(self, parts):
        self.head(200, {"Transfer-Encoding": "chunked"}, None)
        self.chunked(DATA[:1000])

    def case_empty(self, parts):
        self.empty(416, {"Content-Range": "bytes */0"})

    def case_empty_bare(self, parts):
        self.empty(416)

    def case_open_ended(self, parts):
        """The end of the connection may be the end of the file, or a failure."""
        self.head(200, {"Connection": "close"}, None)
        self.wfile.write(DATA[:1000])
        self.close_connection = True

    # Temporary faults.

    def broken(self, how, bytes_kept):
        wanted = self.part(body=False)
        if wanted is None:
            return
        self.wfile.write(wanted[:bytes_kept])
        if bytes_kept >= len(wanted):
            return
        self.close_connection = True
        self.reset() if how == "reset" else self.wfile.flush()

    def case_reset(self, parts):
        self.broken("reset", 70000)

    def case_cut(self, parts):
        self.broken("cut", 70000)

    def case_reset_ever(self, parts):
        self.part() if count("reset-ever") == 0 else self.broken("reset", 0)

    def case_reset_first(self, parts):
        self.reset() if count("reset-first") < 2 else self.part()

    def case_short(self, parts):
        wanted = self.part(body=False, extra={"Transfer-Encoding": "chunked"})
        if wanted is not None:
            self.chunked(wanted[:max(1, len(wanted) // 2)])

    def case_stall(self, parts):
        if count("stall") not in (0, 3):
            return self.part()
        wanted = self.part(body=False)
        self.wfile.write(wanted[:1000])
        self.wfile.flush()
        time.sleep(4)
        self.close_connection = True

    def case_stall_ever(self, parts):
        time.sleep(4)
        self.close_connection = True

    def case_silent(self, parts):
        """Never answers; a file in the served folder shows that it was asked."""
        with open(os.path.join(SERVED, "asked"), "w", encoding="utf-8"):
            pass
        time.sleep(3600)

    def case_dribble(self, parts):
        """Sends a byte at a time, for 12 seconds."""
        wanted = self.part(body=False) or b""
        for at in range(min(60, len(wanted))):
            self.wfile.write(wanted[at:at + 1])
            time.sleep(.2)
        self.wfile.write(wanted[60:])

    def case_busy(self, parts):
        if count("busy") == 1:
            return self.empty(429, {"Retry-After": "1"})
        self.part()

    def case_busy_ever(self, parts):
        self.empty(429, {"Retry-After": "3600"})

    def case_failing(self, parts):
        self.part() if count("failing") % 3 == 2 else self.say(503, b"x" * 5000)

    def case_failing_ever(self, parts):
        self.empty(500)

    # Wrong answers.

    def case_whole(self, parts):
        self.head(200, {}, SIZE)
        self.wfile.write(DATA)

    def case_whole_chunked(self, parts):
        self.head(200, {"Transfer-Encoding": "chunked"}, None)
        self.chunked(DATA)

    def case_whole_later(self, parts):
        self.part() if count("whole-later") == 0 else self.case_whole(parts)

    def case_shifted(self, parts):
        self.part(shift=1)

    def case_unsaid(self, parts):
        self.say(206, DATA[:1000])

    def case_long(self, parts):
        wanted = self.part(body=False, extra={"Transfer-Encoding": "chunked"})
        if wanted is not None:
            self.chunked(wanted + b"more")

    def case_long_length(self, parts):
        first, last = self.asked()
        self.say(206, DATA[first:last + 1] + b"more",
                 {"Content-Range": f"bytes {first}-{last}/{SIZE}", "ETag": '"v1"'})

    def case_gzip(self, parts):
        self.part(extra={"Content-Encoding": "gzip"})

    def case_page(self, parts):
        self.say(200, b"\n<!DOCTYPE html><html>", {"Content-Type": "text/html"})

    # Files that change.

    def case_changed_tag(self, parts):
        """A server that ignores If-Match."""
        del self.headers["If-Match"]
        self.part(tag=f'"v{count("changed-tag") // 2}"')

    def case_changed_412(self, parts):
        self.part(tag=f'"v{count("changed-412") // 2}"')

    def case_changed_weak(self, parts):
        self.part(tag=f'W/"v{count("changed-weak") // 2}"')

    def case_changed_date(self, parts):
        del self.headers["If-Match"]
        self.part(date=DATE if count("changed-date") < 2 else DATE.replace("2015", "2016"))

    def case_changed_size(self, parts):
        self.part(tag=None, date=None, total=SIZE if count("changed-size") < 2 else SIZE + 1)

    def case_changed_midway(self, parts):
        """The first answer breaks off, and the rest belongs to another file."""
        if count("changed-midway") == 0:
            return self.broken("reset", 70000)
        self.part(tag='"v2"')

    # Redirects and permissions.

    def go(self, where, status=302, headers=None):
        self.empty(status, {"Location": where, **(headers or {})})

    def other(self):
        """Returns this server under another name, which counts as another host."""
        return f"http://localhost:{self.server.server_port}"

    def case_loop(self, parts):
        self.go("/loop/x")

    def case_endless(self, parts):
        self.go(f"/endless/{int(parts[1]) + 1 if len(parts) > 1 and parts[1].isdigit() else 0}")

    def case_nowhere(self, parts):
        self.empty(302)

    def case_to_file(self, parts):
        self.go("file:///etc/passwd")

    def case_to_user(self, parts):
        self.go(f"http://user:hunter2@127.0.0.1:{self.server.server_port}/plain/x")

    def case_relative(self, parts):
        self.go("../plain/x", 307)

    def case_moving_on(self, parts):
        """Redirects to an address that works once, and redirects from then on."""
        self.go(f"{self.other()}/moved-on/{count('moving-on')}")

    def case_moved_on(self, parts):
        self.part() if count("moved-on" + parts[1]) == 0 else self.go("/nothing-here/x")

    def bearer(self):
        return self.headers["Authorization"] == "Bearer hunter2"

    def case_guarded(self, parts):
        self.part() if self.bearer() else self.empty(401)

    def case_forbidden(self, parts):
        self.empty(403, {"X-Error-Code": "GatedRepo"})

    def case_away(self, parts):
        """Redirects to another host, which must not get the token."""
        self.go(self.other() + "/unguarded/x") if self.bearer() else self.empty(401)

    def case_unguarded(self, parts):
        self.empty(400) if "Authorization" in self.headers else self.part()

    def case_expiring(self, parts):
        """Redirects to an address that works twice."""
        self.go(f"{self.other()}/ticket/{count('expiring')}/x?Signature=hunter2")

    def case_ticket(self, parts):
        self.part() if count("ticket" + parts[1]) < 2 else self.empty(403)

    # A hub: /org/MODEL/resolve/REVISION/PATH and /api/models/org/MODEL/tree/REVISION.

    def case_org(self, parts):
        model, revision, name = parts[1], parts[3], "/".join(parts[4:])
        if parts[2] != "resolve" or not self.bearer():
            return self.empty(401, {"X-Error-Code": "RepoNotFound"})
        if count("first of " + model) and revision != COMMIT:
            return self.empty(400)  # the request does not name the pinned commit
        if name not in ("a.bin", "sub/b%20c.bin"):
            return self.empty(404, {"X-Error-Code": "EntryNotFound"})
        linked = "new" if model == "moving" and count("moving") else "sha"
        self.go(f"{self.other()}/cdn/{model}-{count('cdn ' + model)}/x", 302,
                {"X-Linked-ETag": f'"{linked}"', "X-Linked-Size": str(SIZE if model != "lying" else 5),
                 "X-Repo-Commit": COMMIT, "ETag": '"hub"'})

    def case_cdn(self, parts):
        """Each resolution leads to another tag, and each address works three times."""
        if "Authorization" in self.headers or self.headers["If-Match"] in ('"sha"', '"hub"'):
            return self.empty(400)
        most = 30 if parts[1].startswith("shared") else 3
        self.part(tag=f'"cdn{parts[1]}"') if count("cdn" + parts[1]) < most else self.empty(403)

    def case_api(self, parts):
        if parts[2] == "demo":
            names = [] if len(parts) > 6 else sorted(os.listdir(SERVED))
            listing = [{"type": "file", "path": name} for name in names]
            return self.say(200, json.dumps(listing).encode()) if names else self.empty(404)
        if parts[2] == "evil":
            return self.say(200, json.dumps([{"type": "file", "path": name} for name in EVIL_NAMES]).encode())
        if not self.bearer() or parts[1] != "models" or parts[4] != "tree":
            return self.empty(401)
        if parts[3] == "slow":  # each hop is within its time limit, but all together are not
            time.sleep(1.5)
            return self.go(self.path + "/on")
        if parts[3] in LISTINGS:
            return self.listing(parts[3])
        if parts[3] == "leaky":  # the next page claims to be on another host
            return self.say(200, b"[]", {"Link": f'<{self.other()}{self.path}?cursor=2>; rel="next"'})
        if parts[3] == "relative" and "cursor=2" not in self.path:
            return self.say(200, b'[{"path":"a"}]', {"Link": '</api/models/org/relative/tree/main?cursor=2>; '
                                                     'rel="next"'})
        folder = "/".join(parts[6:])
        if folder not in ("", "sub"):
            return self.empty(404, {"X-Error-Code": "EntryNotFound"})
        if folder == "sub":
            return self.say(200, b'[{"type":"file","path":"sub/b c.bin"}]')
        if "cursor=2" in self.path:
            return self.say(200, b'[{"type":"directory","path":"sub"}]')
        self.say(200, b'[{"type":"file","path":"a.bin","size":1000003}]',
                 {"Link": f'<{self.headers_url()}?cursor=2>; rel="next"', "X-Repo-Commit": COMMIT})

    def listing(self, kind):
        """Folders that exceed a limit: names, bytes, pages, time."""
        page, (count_of, path, pages, pause) = int(self.path.partition("cursor=")[2] or 0), LISTINGS[kind]
        time.sleep(pause)
        more = {"Link": f'<{self.path.partition("?")[0]}?cursor={page + 1}>; rel="next"'} if page + 1 < pages else {}
        self.head(200, {"Transfer-Encoding": "chunked", **more}, None)
        self.wfile.write(b"1\r\n[\r\n")
        many = b",".join([b'{"path":"%s"}' % path.encode()] * 1000) + b","
        for _ in range(count_of // 1000):
            self.wfile.write(b"%x\r\n%s\r\n" % (len(many), many))
        last = b'{"path":"z"}]'
        self.wfile.write(b"%x\r\n%s\r\n0\r\n\r\n" % (len(last), last))

    def headers_url(self):
        return f"http://127.0.0.1:{self.server.server_port}" + self.path

    # S3, by buckets: signatures are verified by the rules that Amazon publishes.

    def scope(self):
        """Returns the region of the signature, or None if there is none."""
        m = re.match(r"AWS4-HMAC-SHA256 Credential=tester/\d{8}/([^/]+)/s3/aws4_request,", self.headers["Authorization"]
                     or "")
        return m and m[1]

    def is_signed(self, region, session=None):
        m = re.fullmatch(r"AWS4-HMAC-SHA256 Credential=tester/(\d{8})/([^/]+)/s3/aws4_request,"
                         r"SignedHeaders=([a-z0-9;-]+),Signature=([0-9a-f]{64})", self.headers["Authorization"] or "")
        if not m or m[2] != region or self.headers["x-amz-security-token"] != session:
            return False
        names, (path, _, query) = m[3].split(";"), self.path.partition("?")
        must = {"host", "x-amz-content-sha256", "x-amz-date"} | ({"x-amz-security-token"} if session else set())
        lines = ["GET", path, "&".join(sorted(query.split("&"))), *(f"{n}:{self.headers[n]}" for n in names), "",
                 m[3], self.headers["x-amz-content-sha256"]]
        digest = hashlib.sha256("\n".join(lines).encode()).hexdigest()
        text = "\n".join(["AWS4-HMAC-SHA256", self.headers["x-amz-date"], f"{m[1]}/{region}/s3/aws4_request", digest])
        key = b"AWS4hunter2+/secret"
        for step in (m[1], region, "s3", "aws4_request", text):
            key = hmac.new(key, step.encode(), hashlib.sha256).digest()
        return must <= set(names) and key.hex() == m[4]

    def object(self):
        if "list-type=2" not in self.path:
            return self.part() if self.path.endswith(quote(ODD_KEY, safe="/~")) else self.empty(404)
        self.say(200, b"<ListBucketResult><Contents><Key>m/a</Key></Contents></ListBucketResult>")

    def case_s3_session(self, parts):
        self.object() if self.is_signed("eu-test-1", SESSION) else self.empty(403)

    def case_s3_public(self, parts):
        self.empty(400) if "Authorization" in self.headers else self.object()

    def far(self, status, headers, body=b""):
        """A bucket of another region, which says so until the signature is for that region."""
        if self.scope() != "eu-far-9":
            return self.say(status, body, headers)
        self.object() if self.is_signed("eu-far-9") else self.empty(403)

    def case_s3_far_301(self, parts):
        self.far(301, {"x-amz-bucket-region": "eu-far-9"}, b"<Error><Code>PermanentRedirect</Code></Error>")

    def case_s3_far_307(self, parts):
        self.far(307, {"x-amz-bucket-region": "eu-far-9", "Location": self.other() + "/s3-public/x"})

    def case_s3_far_400(self, parts):
        self.far(400, {}, b"<Error><Code>AuthorizationHeaderMalformed</Code><Region>eu-far-9</Region></Error>")

    def case_s3_wandering(self, parts):
        """Each answer names another region."""
        self.empty(301, {"x-amz-bucket-region": f"eu-far-{count('wandering')}"})

    def case_s3_away(self, parts):
        """Redirects to another host, which is not a bucket and must not get a signature."""
        self.go(self.other() + "/s3-nobody/x", 307)

    def case_s3_nobody(self, parts):
        self.empty(400 if "Authorization" in self.headers or "x-amz-date" in self.headers else 403)

    def case_s3_broken(self, parts):
        self.say(200, b"<ListBucketResult><Contents><Key>m/a</Key></Contents>")

    def case_s3_token(self, parts):
        """Sends a continuation token that is longer than a request may be."""
        self.say(200, b"<ListBucketResult><Contents><Key>m/a</Key></Contents><NextContinuationToken>"
                 + b"t" * 100_000 + b"</NextContinuationToken></ListBucketResult>")

    # Answers that are not HTTP, or too long.

    def raw(self, answer):
        self.wfile.write(answer)
        self.close_connection = True

    def case_no_http(self, parts):
        self.raw(b"hello, this is another protocol\r\n" * 10)

    def case_long_line(self, parts):
        self.raw(b"HTTP/1.1 200 OK\r\nX-Filler: " + b"y" * 300_000)

    def case_many_lines(self, parts):
        self.raw(b"HTTP/1.1 200 OK\r\n" + b"X-Filler: %s\r\n" % (b"y" * 1000) * 280)

    def case_no_number(self, parts):
        self.raw(b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\nx")

    # What a hub says about commits.

    def case_odd(self, parts):
        """hf://odd/CASE: the first answer names a commit, at which the second is requested."""
        case, revision, name = parts[1], parts[3], parts[4]
        if name == "b.bin":
            return self.part() if revision == ("main" if case in ("dots", "foreign") else COMMIT) else self.empty(400)
        if case == "foreign":
            return self.go(f"{self.other()}/odd-target/x")
        said = ".." if case == "dots" else "f" * 40 if case == "other" and count("odd other") else COMMIT
        return self.part(extra={"X-Repo-Commit": said})

    def case_odd_target(self, parts):
        """This host is not the hub, so the commit that it names does not count."""
        self.part(extra={"X-Repo-Commit": "f" * 40})

    # Terminal control characters: in header values, bodies, addresses and names.

    def case_evil_error(self, parts):
        self.say(403, f"<Error><Code>{EVIL}</Code></Error>".encode(), {"X-Error-Code": EVIL, "ETag": EVIL})

    def case_evil_status(self, parts):
        self.say(418, EVIL.encode(), {"Retry-After": EVIL, "Content-Type": EVIL})

    def case_evil_redirect(self, parts):
        self.go(f"http://127.0.0.1:1/{EVIL}")

    def case_evil_host(self, parts):
        self.go(f"http://{EVIL}.invalid/x")

    def case_evil_range(self, parts):
        self.say(206, DATA[:10], {"Content-Range": f"bytes 0-9/{EVIL}"})

    def case_evil(self, parts):
        """Serves the files of the hub's model that exist."""
        name = unquote("/".join(parts[4:]))
        if name in ("model.safetensors", "config.json", EVIL_TOKENIZER):
            with open(os.path.join(SERVED, "small.safetensors"), "rb") as file:
                return self.part(data=file.read() if name == "model.safetensors" else b"{}")
        self.empty(404, {"X-Error-Code": EVIL})

    # Real files, alone and behind a hub.

    def case_files(self, parts):
        if parts[1] == "tokenizer_huge.json":
            return self.part(total=256 << 20)
        # With the file "break", only the beginning of config.json can be read.
        if parts[1] == "config.json" and os.path.exists(os.path.join(SERVED, "break")):
            return self.part(data=b"{" + b" " * 300_000 + b"}") if self.asked(300_000)[0] == 0 else self.empty(404)
        try:
            with open(os.path.join(SERVED, unquote(parts[1])), "rb") as file:
                self.part(data=file.read())
        except OSError:
            self.empty(404)

    def case_demo(self, parts):
        name = "/".join(parts[4:])
        if not os.path.exists(os.path.join(SERVED, unquote(name))):
            return self.empty(404, {"X-Error-Code": "EntryNotFound"})
        size = os.path.getsize(os.path.join(SERVED, unquote(name)))
        digest = "sha"
        if name.endswith(".safetensors"):
            with open(os.path.join(SERVED, unquote(name)), "rb") as file:
                digest = hashlib.sha256(file.read()).hexdigest()
        self.go(f"{self.other()}/files/{name}", 302,
                {"X-Linked-ETag": f'"{digest}"', "X-Repo-Commit": COMMIT,
                 **({} if name in ("tokenizer_huge.json", "config.json") else {"X-Linked-Size": str(size)})})

    # Faults on a schedule that the seed in the path determines.

    def case_random(self, parts):
        seed = parts[1]
        dice = random.Random(f"{seed}/{count('random' + seed)}")
        kind = dice.choices(
            ["good", "reset", "cut", "short", "long", "shifted", "unsaid", "gzip", "503", "429", "412",
             "other tag", "whole", "redirect", "nothing", "stall"],
            [40, 10, 10, 10, 1, 1, 1, 1, 10, 5, 1, 1, 1, 10, 5, .3])[0]
        keep = dice.choice([0, 1, 1000, 70000, 200000])
        if kind in ("reset", "cut"):
            self.broken(kind, keep)
        elif kind == "short":
            self.case_short(parts)
        elif kind in ("long", "shifted", "unsaid", "gzip", "whole"):
            getattr(self, "case_" + kind)(parts)
        elif kind in ("503", "429", "412"):
            self.empty(int(kind))
        elif kind == "other tag":
            del self.headers["If-Match"]
            self.part(tag='"other"')
        elif kind == "redirect":
            self.go(f"{self.other()}/random/{seed}/x")
        elif kind == "nothing":
            self.reset()
        elif kind == "stall":
            time.sleep(8)
            self.close_connection = True
        else:
            self.part()


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request, address):
        kind = sys.exc_info()[0]
        if kind not in (ConnectionResetError, BrokenPipeError, TimeoutError, OSError, ValueError):
            super().handle_error(request, address)


def main(handler=Handler):
    server = Server(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    environment = {k: v for k, v in os.environ.items()
                   if not k.startswith(("HF_", "HUGGING_", "AWS_")) and not k.lower().endswith("_proxy")}
    environment.update(HF_TOKEN_PATH="/nonexistent", HF_HOME="/nonexistent")
    done = subprocess.run([sys.argv[1], f"http://127.0.0.1:{server.server_port}", SERVED, *sys.argv[2:]],
                          env=environment, check=False)
    shutil.rmtree(SERVED)
    os._exit(done.returncode if 0 <= done.returncode < 256 else 1)


if __name__ == "__main__":
    main()
