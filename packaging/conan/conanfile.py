"""The recipe of tenmap for Conan 2: `conan create packaging/conan` in the root of the tree."""
import os
import re

from conan import ConanFile
from conan.tools.cmake import CMake, CMakeToolchain, cmake_layout
from conan.tools.files import copy, load, rmdir

required_conan_version = ">=2.0"


class Tenmap(ConanFile):
    name = "tenmap"
    license = "MIT"
    description = "Zero-copy, memory-mapped SafeTensors, GGUF and PyTorch models"
    topics = ("safetensors", "gguf", "pytorch", "tensor", "mmap")
    package_type = "library"
    settings = "os", "arch", "compiler", "build_type"
    # http adds libtenmap-http, which reads models from addresses. It loads the system's
    # libcurl at run time.
    options = {"shared": [True, False], "fPIC": [True, False], "http": [True, False]}
    default_options = {"shared": False, "fPIC": True, "http": False}

    def set_version(self):
        """The public header is the only place that holds the version."""
        header = load(self, os.path.join(self.recipe_folder, "../../include/tenmap/types.h"))
        parts = re.findall(r"#define TENMAP_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)", header)
        suffix = re.findall(r'#define TENMAP_VERSION_SUFFIX "(\w*)"', header)
        self.version = self.version or ".".join(parts) + "".join(suffix)

    def export_sources(self):
        root = os.path.join(self.recipe_folder, "../..")
        for pattern in ("CMakeLists.txt", "LICENSE", "cmake/*", "include/*", "src/*", "http/*",
                        "sha256/*", "mpi/*"):
            copy(self, pattern, root, self.export_sources_folder)

    def config_options(self):
        if self.settings.os == "Windows":
            del self.options.fPIC

    def configure(self):
        if self.options.shared:
            self.options.rm_safe("fPIC")
        self.settings.rm_safe("compiler.cppstd")  # the library is C
        self.settings.rm_safe("compiler.libcxx")

    def layout(self):
        cmake_layout(self)

    def generate(self):
        toolchain = CMakeToolchain(self)
        toolchain.cache_variables["TENMAP_SHARED"] = bool(self.options.shared)
        toolchain.cache_variables["TENMAP_STATIC"] = not self.options.shared
        toolchain.cache_variables["TENMAP_HTTP"] = bool(self.options.http)
        for part in ("TESTS", "TOOL", "EXAMPLES", "BENCH"):
            toolchain.cache_variables[f"TENMAP_{part}"] = False
        toolchain.generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def package(self):
        CMake(self).install()
        copy(self, "LICENSE", self.source_folder, os.path.join(self.package_folder, "licenses"))
        for folder in ("cmake", "pkgconfig"):  # Conan's generators write these
            rmdir(self, os.path.join(self.package_folder, "lib", folder))

    def package_info(self):
        self.cpp_info.set_property("cmake_file_name", "tenmap")
        core = self.cpp_info.components["tenmap"]
        core.libs = ["tenmap"]
        core.set_property("cmake_target_name", "tenmap::tenmap")
        core.set_property("pkg_config_name", "tenmap")
        if self.settings.os in ("Linux", "FreeBSD"):
            core.system_libs = ["pthread"]
        if self.options.shared:
            core.defines = ["TENMAP_USE_SHARED"]
        if self.options.http:
            http = self.cpp_info.components["http"]
            http.libs = ["tenmap-http"]
            http.requires = ["tenmap"]
            http.set_property("cmake_target_name", "tenmap::tenmap_http")
            http.set_property("pkg_config_name", "tenmap-http")
            if not self.options.shared and self.settings.os == "Linux":
                http.system_libs = ["dl"]
