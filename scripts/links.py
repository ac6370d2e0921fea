#!/usr/bin/env python3
"""Checks that every relative link in the Markdown files leads to a file, and to a heading if it
names one.

    scripts/links.py [SOURCE]
"""
import os
import re
import sys

os.chdir(sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(__file__), ".."))


def pages():
    for folder, folders, files in os.walk("."):
        folders[:] = [f for f in folders if not f.startswith((".", "build"))]
        yield from (os.path.normpath(os.path.join(folder, f)) for f in files if f.endswith(".md"))


def prose(path):
    with open(path, encoding="utf-8") as file:
        return re.sub(r"^ *```.*?^ *```$", "", file.read(), flags=re.S | re.M)


def anchors(path):
    """Returns the anchors of a file's headings, as repository hosts derive them."""
    headings = re.findall(r"^#+ (.*)$", prose(path), re.M)
    texts = (re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", h).strip().lower() for h in headings)
    return {re.sub(r"[^\w\- ]", "", t).replace(" ", "-") for t in texts}


checked = broken = 0
for page in sorted(pages()):
    for link in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = os.path.normpath(os.path.join(os.path.dirname(page), path)) if path else page
        checked += 1
        if not os.path.exists(target):
            print(f"{page}: there is no file '{link}'")
            broken += 1
        elif anchor and anchor not in anchors(target):
            print(f"{page}: there is no heading '{link}'")
            broken += 1
if not checked:
    print("there are no links: is this the source folder?")
if broken or not checked:
    sys.exit(1)
print(f"{checked} links lead somewhere")
