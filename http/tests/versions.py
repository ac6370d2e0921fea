"""A server whose file may be replaced by another version at any request, and that runs a program
against itself:

    versions.py PROGRAM [ARGUMENT...]

The second component of the path is a seed, which determines everything: what tells the versions
apart, whether a redirect or a hub is in between, which version each request finds, what fails. The
two versions differ in every byte.
"""
import random
import threading

import server

SIZE = 160_001
OLD = server.pattern(SIZE + 17)
NEW = bytes(b ^ 255 for b in OLD)
MARKS = ["strong", "weak", "long", "long weak", "date", "long date", "odd", "odd date", "both", "length"]
KINDS = ["plain", "redirect", "fixed", "placed", "sometimes", "first", "later", "two hops", "foreign", "model"]
plans, lock = {}, threading.Lock()


class Plan:
    """What one seed determines."""

    def __init__(self, seed):
        dice = random.Random(seed)
        self.seed, self.requests, self.resolved, self.linked = seed, 0, 0, 0
        self.kind = dice.choice(KINDS)
        self.marks = dice.choice(MARKS)
        if self.kind in ("placed", "first", "later", "two hops") and dice.random() < .3:
            self.marks = "none"  # only the hub tells versions apart
        self.filler = "x" * dice.randrange(260, 3000)
        self.long_link, self.own_tags = dice.random() < .3, dice.random() < .3
        self.obeys, self.faulty = dice.random() < .5, dice.random() < .7
        self.expires = dice.choice([1, 2, 3, 1000])
        change, flips = dice.randrange(1, 12), dice.getrandbits(64)
        if dice.random() < .6:
            self.version = lambda n: int(n >= change)
        else:
            self.version = lambda n: flips >> n % 64 & 1

    def link(self, version):
        return f'"{self.filler if self.long_link else ""}{version}"'

    def headers(self, version, place):
        tags = {"strong": f'"{version}"', "weak": f'W/"{version}"', "long": f'"{self.filler}{version}"',
                "long weak": f'W/"{self.filler}{version}"', "odd": f'"\x01{version}"', "both": f'"{version}"'}
        dates = {"date": f"Wed, 21 Oct 2015 07:28:0{version} GMT", "long date": f"{server.DATE}{self.filler}{version}",
                 "odd date": server.DATE + "\x01\x02"[version], "both": server.DATE}
        tag, date = tags.get(self.marks), dates.get(self.marks)
        if tag and place:
            tag = tag[:-1] + f'{place}"'
        return {**({"ETag": tag} if tag else {}), **({"Last-Modified": date} if date else {})}


class Handler(server.Handler):
    def begin(self, parts):
        """Returns the seed's plan, the version that this request finds, and its fault."""
        with lock:
            plan = plans.setdefault(parts[1], None) or Plan(parts[1])
            plans[parts[1]] = plan
            n, plan.requests = plan.requests, plan.requests + 1
        dice = random.Random(f"{plan.seed}/{n}")
        faults = ["none", "cut", "reset", "503", "401", "403"]
        fault = dice.choices(faults, [70, 15, 4, 4, 4, 4])[0] if plan.faulty else "none"
        return plan, plan.version(n), fault, dice

    def bytes_of(self, plan, version, fault, dice, place=""):
        data = (NEW if version else OLD)[:SIZE + (17 * version if plan.marks == "length" else 0)]
        headers = plan.headers(version, place)
        if plan.obeys and self.headers["If-Match"] and self.headers["If-Match"] != headers.get("ETag"):
            return self.empty(412)
        since = self.headers["If-Unmodified-Since"]
        if plan.obeys and since and since != headers.get("Last-Modified"):
            return self.empty(412)
        first, last = self.asked(len(data))
        headers["Content-Range"] = f"bytes {first}-{last}/{len(data)}"
        self.head(206, headers, last + 1 - first)
        keep = dice.choice([0, 1, 5000, 70000]) if fault == "cut" else SIZE
        self.wfile.write(data[first:min(last + 1, first + keep)])
        if keep < last + 1 - first:
            self.wfile.flush()
            self.close_connection = True
        return None

    def fails(self, fault, target):
        """Returns whether this request was answered with a failure."""
        if fault == "reset":
            self.reset()
        elif fault == "503" or (target and fault in ("401", "403")):
            self.empty(int(fault))
        else:
            return False
        return True

    def case_first(self, parts):
        """/first/SEED/NAME: what the caller requests."""
        plan, version, fault, dice = self.begin(parts)
        if self.fails(fault, False):
            return None
        if plan.kind == "plain":
            return self.bytes_of(plan, version, fault, dice)
        with lock:
            number, plan.resolved = plan.resolved, plan.resolved + 1
        links = {"redirect": False, "foreign": False, "sometimes": dice.random() < .5, "first": number == 0,
                 "later": number > 0}
        headers = {"X-Linked-ETag": plan.link(version)} if links.get(plan.kind, True) else {}
        where = {"redirect": "fixed", "fixed": "fixed", "two hops": "second", "foreign": "foreign"}
        place = where.get(plan.kind, f"placed/{plan.seed}/{version}/{number}")
        host = "" if plan.kind == "two hops" else self.other()
        return self.go(f"{host}/{place if '/' in place else f'{place}/{plan.seed}/{number}'}?n={number}"
                       if place != "fixed" else f"{host}/fixed/{plan.seed}?n={number}", 302, headers)

    def case_second(self, parts):
        """Another redirect on the hub itself."""
        plan, version, fault, _ = self.begin(parts)
        if not self.fails(fault, False):
            self.go(f"{self.other()}/placed/{plan.seed}/{version}/{parts[2]}", 302,
                    {"X-Linked-ETag": plan.link(version)})

    def case_foreign(self, parts):
        """A redirect outside the hub always sends the same tag."""
        plan, version, fault, _ = self.begin(parts)
        if not self.fails(fault, True):
            self.go(f"/placed/{plan.seed}/{version}/{parts[2]}", 302, {"X-Linked-ETag": '"same"'})

    def case_fixed(self, parts):
        """One address, which has the current version."""
        plan, version, fault, dice = self.begin(parts)
        if not self.fails(fault, True):
            self.bytes_of(plan, version, fault, dice)

    def case_placed(self, parts):
        """One address for each version; it expires."""
        plan, _, fault, dice = self.begin(parts)
        if server.count("/".join(parts)) >= plan.expires:
            return self.empty(403)
        if not self.fails(fault, True):
            self.bytes_of(plan, int(parts[2]), fault, dice, parts[3] if plan.own_tags else "")
        return None

    def case_v(self, parts):
        """/v/SEED/resolve/REVISION/NAME: a hub whose branch has one commit per version."""
        plan, version, fault, _ = self.begin(parts)
        if self.fails(fault, False):
            return
        commits = ["0" * 40, "1" * 40]
        version = commits.index(parts[3]) if parts[3] in commits else version
        with lock:
            number, plan.resolved = plan.resolved, plan.resolved + 1
        self.go(f"{self.other()}/placed/{plan.seed}/{version}/{number}", 302,
                {"X-Linked-ETag": plan.link(version), "X-Repo-Commit": commits[version]})

    def case_kind(self, parts):
        """/kind/SEED: tells the program the kind and the marks."""
        plan = Plan(parts[1])
        self.part(tag=None, date=None, data=f"{plan.kind}, {plan.marks}".encode())


if __name__ == "__main__":
    server.main(Handler)
