"""python -m tenmap ARGUMENTS: runs the command-line tool that the wheel installed, in place of this
process."""

import importlib.metadata
import os
import sys
import sysconfig


def places():
    """Yields the paths where the tool may be, in the order of preference."""
    if os.environ.get("TENMAP_TOOL"):
        yield os.environ["TENMAP_TOOL"]
        return
    name = "tenmap.exe" if os.name == "nt" else "tenmap"
    # The record of the installation knows any scheme: a user's folder, a prefix, a target.
    try:
        files = importlib.metadata.files("tenmap") or ()
    except importlib.metadata.PackageNotFoundError:
        files = ()
    for file in files:
        if file.name == name and file.parent.name.lower() in ("bin", "scripts"):
            yield str(file.locate())
    yield os.path.join(sysconfig.get_path("scripts"), name)


def find_tool():
    """Returns the path of the tool, or None if it is not installed."""
    for path in places():
        if os.path.isfile(path) and os.access(path, os.X_OK):
            return os.path.normpath(path)
    return None


def main():
    tool = find_tool()
    if tool is None:
        sys.exit(
            "The command-line tool tenmap was not found beside this Python: "
            f"looked for {', '.join(dict.fromkeys(places()))}. "
            "Reinstall the package (pip install --force-reinstall tenmap), or set TENMAP_TOOL to "
            "the path of the tool. The package for Windows does not have it yet."
        )
    if os.name == "nt":  # where execv ends this process before the new one is done
        import subprocess

        sys.exit(subprocess.call([tool, *sys.argv[1:]]))
    os.execv(tool, [tool, *sys.argv[1:]])


if __name__ == "__main__":
    main()
