"""python -m tenmap ARGUMENTS: runs the command-line tool, if it is installed."""

import os
import shutil
import sys


def main():
    tool = os.environ.get("TENMAP_TOOL") or shutil.which("tenmap")
    if tool is None:
        sys.exit(
            "The command-line tool tenmap is not on the PATH. It is not part of this package: "
            "`make install` in its sources builds and installs it."
        )
    if os.name == "nt":
        import subprocess

        sys.exit(subprocess.call([tool, *sys.argv[1:]]))
    os.execv(tool, ["tenmap", *sys.argv[1:]])


if __name__ == "__main__":
    main()
