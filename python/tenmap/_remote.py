"""Models at addresses: the extension opens them through libcurl, or fsspec does."""

import re

from . import _core
from ._errors import Status, make

_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_OWN = ("https", "http", "hf", "s3")
_PACKAGES = {"hf": "huggingface_hub", "s3": "s3fs", "gs": "gcsfs", "https": "fsspec aiohttp", "http": "fsspec aiohttp"}
_ENDINGS = (".safetensors", ".gguf", ".npz", ".npy")
_SHARED_ENDINGS = (".bin", ".pt", ".pth", ".ckpt")  # in folders, only well-known names are models
_FOLDER_NAMES = ("/pytorch_model.bin", "/diffusion_pytorch_model.bin", "/adapter_model.bin")


def is_address(path):
    return isinstance(path, str) and _ADDRESS.match(path) is not None


def opened_by_core(path):
    """Whether the extension opens this address itself."""
    return path.partition(":")[0].lower() in _OWN and _core.http_missing() is None


def file_of(path):
    """The file at an address as a file object of fsspec, if the extension cannot open it."""
    scheme = path.partition(":")[0].lower()
    try:
        import fsspec

        system, place = fsspec.core.url_to_fs(path)
    except (ImportError, ValueError) as refused:
        package = _PACKAGES.get(scheme, f"fsspec and its package for {scheme}")
        own = f"libcurl ({_core.http_missing()}) or " if scheme in _OWN else ""
        message = f"{path!r} is an address. To open it, tenmap needs {own}a file system of fsspec: pip install {package} ({refused})"
        raise make(Status.UNSUPPORTED, message, 0, 0, 0, 0, path, None) from None
    if not place.endswith(_ENDINGS + _SHARED_ENDINGS) and system.isdir(place):
        names = sorted(system.ls(place, detail=False))
        found = [each for each in names if each.endswith(_ENDINGS)]
        found = found or [each for each in names if each.endswith(_FOLDER_NAMES)]
        if len(found) != 1:
            message = f"{path!r} has {len(found)} files of models, and fsspec opens single files: "
            message += f"name one of them, such as {found[0]!r}" if found else "name a file that ends in .safetensors, .gguf or .bin"
            raise make(Status.UNSUPPORTED, message, 0, 0, 0, 0, path, None)
        place = found[0]
    return system.open(place, "rb")
