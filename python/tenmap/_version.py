"""The version of safetensors that the drop-in reports."""

import os
import re
import sys

IMPLEMENTED = "0.8.0"  # the last release that it implements; it also has the names of 0.9.0rc1
VARIABLE = "TENMAP_SAFETENSORS_VERSION"
_VERSION = re.compile(r"[0-9][0-9A-Za-z.+!-]*")
_MODULES = ("tenmap.safetensors", "tenmap.safetensors._safetensors_rust")


def reported():
    """The version in TENMAP_SAFETENSORS_VERSION, or else the default."""
    given = os.environ.get(VARIABLE, "")
    return given if _VERSION.fullmatch(given) else IMPLEMENTED


def report(version):
    """Sets the version, for this process and those that it starts; None: as it was before."""
    if version is None:
        os.environ.pop(VARIABLE, None)
    elif isinstance(version, str) and _VERSION.fullmatch(version):
        os.environ[VARIABLE] = version
    else:
        raise ValueError(f'a version is like "0.8.0", not {version!r}')
    for name in _MODULES:
        if name in sys.modules:
            sys.modules[name].__version__ = reported()
