"""What the comparisons with Python packages share."""
import os
import sys

SKIP = 77  # the exit code if a package is missing


def hand_over():
    """Runs this script with the interpreter that TENMAP_PEERS_PYTHON names, if it names one."""
    other = os.environ.pop("TENMAP_PEERS_PYTHON", None)
    if other:
        os.execv(other, [other] + sys.argv)
