"""tenmap.install(): every `import safetensors` returns tenmap.safetensors, the same objects."""

import importlib
import importlib.abc
import importlib.machinery
import os
import sys
from importlib.metadata import Distribution, DistributionFinder

from ._version import report, reported

VARIABLE = "TENMAP_SAFETENSORS"
_OURS = "tenmap.safetensors"


class _Loader(importlib.abc.Loader):
    """Returns our module. It keeps its own spec, which its relative imports need."""

    def create_module(self, spec):
        module = importlib.import_module(_OURS + spec.name[len("safetensors") :])
        self._own_spec = module.__spec__
        return module

    def exec_module(self, module):
        module.__spec__ = self._own_spec


class _Stand(Distribution):
    """The distribution that importlib.metadata reports for safetensors: transformers and others
    check its version."""

    def read_text(self, filename):
        return {
            "METADATA": f"Metadata-Version: 2.1\nName: safetensors\nVersion: {reported()}\n"
            "Summary: tenmap.safetensors, standing in for safetensors\n",
            "top_level.txt": "safetensors\n",
            "INSTALLER": "tenmap\n",
        }.get(filename)

    def locate_file(self, path):
        return os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), path)


class _Finder(DistributionFinder):
    """The first finder to be asked for safetensors and its submodules."""

    @staticmethod
    def find_spec(fullname, path=None, target=None):
        if fullname != "safetensors" and not fullname.startswith("safetensors."):
            return None
        if fullname.rpartition(".")[2] == "__main__":
            return None
        ours = importlib.machinery.PathFinder.find_spec(_OURS + fullname[len("safetensors") :], _places(fullname))
        if ours is None:
            return None
        spec = importlib.machinery.ModuleSpec(
            fullname, _Loader(), origin=ours.origin, is_package=ours.submodule_search_locations is not None
        )
        if ours.submodule_search_locations is not None:
            spec.submodule_search_locations = list(ours.submodule_search_locations)
        spec.has_location = True
        return spec

    @staticmethod
    def find_distributions(context=DistributionFinder.Context()):
        return iter([_Stand()] if context.name in (None, "safetensors") else [])

    @staticmethod
    def invalidate_caches():
        pass


def _places(fullname):
    """The folders of the parent of one of our modules."""
    here = os.path.dirname(os.path.abspath(__file__))
    return [os.path.join(here, *fullname.split(".")[:-1])]


_finder = _Finder()


def _imported():
    return [name for name in sys.modules if name == "safetensors" or name.startswith("safetensors.")]


def install(version=None):
    """See tenmap.install."""
    if version is not None:
        report(version)
    if _finder in sys.meta_path:
        return
    foreign = [name for name in _imported() if not getattr(sys.modules[name], "__name__", "").startswith(_OURS)]
    if foreign:
        raise ImportError(
            "safetensors was imported before tenmap.install(): whoever imported it already has its objects. Call "
            "tenmap.install() first, or run the script with python -m tenmap.safetensors SCRIPT"
        )
    sys.meta_path.insert(0, _finder)
    os.environ[VARIABLE] = "1"


def uninstall():
    """See tenmap.uninstall."""
    if _finder not in sys.meta_path:
        return
    sys.meta_path.remove(_finder)
    report(None)
    for name in _imported():
        del sys.modules[name]
    if os.environ.get(VARIABLE) == "1":
        del os.environ[VARIABLE]
