"""Compares two runs of one test suite: compare_suites.py REFERENCE.xml OURS.xml [--may-end]

Prints a table by file, and fails unless every test that passed in the first run passed in the
second. A run that crashed has left no file, so no test is known to have passed in it. --may-end
allows this for the first run.
"""

import os
import sys
import xml.etree.ElementTree
from collections import Counter


def outcomes(path):
    found = {}
    if not os.path.exists(path):
        print(f"{os.path.basename(path)}: this run ended its process before its last test")
        return found
    for case in xml.etree.ElementTree.parse(path).iter("testcase"):
        kinds = {child.tag for child in case}
        verdict = "failed" if kinds & {"failure", "error"} else "skipped" if "skipped" in kinds else "passed"
        found[case.get("classname"), case.get("name")] = verdict
    return found


def main():
    reference, ours = map(outcomes, sys.argv[1:3])
    rows = Counter((case[0].split(".")[1], who, verdict)
                   for who, run in (("reference", reference), ("tenmap", ours))
                   for case, verdict in run.items())  # fmt: skip
    print(f"{'':32}{'reference':>28}{'tenmap':>28}")
    for file in sorted({row[0] for row in rows}):
        cells = [", ".join(f"{rows[file, who, verdict]} {verdict}" for verdict in ("passed", "failed", "skipped")
                           if rows[file, who, verdict]) for who in ("reference", "tenmap")]  # fmt: skip
        print(f"{file:32}{cells[0]:>28}{cells[1]:>28}")
    lost = [case for case, verdict in reference.items() if verdict == "passed" and ours.get(case) != "passed"]
    won = [case for case, verdict in ours.items() if verdict == "passed" and reference.get(case) != "passed"]
    print(f"passed on both: {sum(v == 'passed' for v in reference.values()) - len(lost)}, only here: {len(won)}")
    for case in lost:
        print("passes on the reference, and not here:", *case)
    known = reference or "--may-end" in sys.argv
    sys.exit(1 if lost or not known or "passed" not in ours.values() else 0)


if __name__ == "__main__":
    main()
