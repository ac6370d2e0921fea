"""Prints the table of scripts/coverage.sh: coverage_table.py SUMMARY LINES LEAST"""
import json
import os
import re
import sys

# Readers of untrusted bytes: all of src/format, whatever its files are called, and these of
# src/model, which must exist.
NAMED = {"shard.c", "split_set.c"}


def is_reader(path):
    return path.endswith(".c") and (os.path.basename(os.path.dirname(path)) == "format" or
                                    os.path.basename(path) in NAMED)


def unreached(path):
    """Returns, for each file of llvm-cov's listing, the lines that were never executed."""
    name, lines = None, {}
    with open(path, errors="replace") as listing:
        for line in listing:
            if match := re.match(r"(/\S+\.[ch]):$", line):
                name = os.path.basename(match[1])
            elif match := re.match(r"\s*(\d+)\|\s*0\|(.*)", line):
                lines.setdefault(name, []).append((int(match[1]), match[2].strip()))
    return lines


def main():
    summary, listing, least = sys.argv[1], sys.argv[2], float(sys.argv[3])
    with open(summary) as source:
        files = json.load(source)["data"][0]["files"]
    missing, low = unreached(listing), []
    readers = {os.path.basename(file["filename"]) for file in files if is_reader(file["filename"])}
    gone = NAMED - readers
    if gone:
        sys.exit(f"readers that the coverage does not list: {', '.join(sorted(gone))}")
    if readers == NAMED:
        sys.exit("the coverage lists no file of src/format")
    print(f"{len(files)} files, {len(readers)} of them readers")
    print(f"{'file':<22}{'lines':>7}{'reached':>9}{'percent':>9}{'branches':>10}")
    for file in sorted(files, key=lambda f: f["filename"]):
        name, total = os.path.basename(file["filename"]), file["summary"]
        lines, branches = total["lines"], total["branches"]
        mark = " *" if name in readers else ""
        print(f"{name:<22}{lines['count']:>7}{lines['covered']:>9}{lines['percent']:>9.1f}"
              f"{branches['percent']:>10.1f}{mark}")
        if mark and lines["percent"] < least:
            low.append(name)
    print("\nLines of the readers (*) that nothing reached:")
    for name in sorted(readers):
        for number, text in missing.get(name, []):
            print(f"  {name}:{number}: {text}")
    if low:
        sys.exit(f"below {least:g}%: {', '.join(low)}")


if __name__ == "__main__":
    main()
