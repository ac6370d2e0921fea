"""What the comparisons with Python's packages share."""
import os
import sys

SKIP = 77  # the exit code of one whose packages are not here


def hand_over():
    """To the interpreter that has the packages, where TENMAP_PEERS_PYTHON names one."""
    other = os.environ.pop("TENMAP_PEERS_PYTHON", None)
    if other:
        os.execv(other, [other] + sys.argv)
