# SPDX-License-Identifier: MIT
"""Coffer for Conan 2: `conan create packaging/conan` in a clone or a release. The libraries, without the tools."""

import os
import re

from conan import ConanFile
from conan.errors import ConanInvalidConfiguration
from conan.tools.cmake import CMake, CMakeToolchain, cmake_layout
from conan.tools.files import copy, load, rm, rmdir


class Coffer(ConanFile):
    name = "coffer"
    description = "A memory allocator for C and C++ programs: a drop-in malloc"
    license = "MIT"
    topics = ("malloc", "allocator", "memory")
    package_type = "library"
    settings = "os", "arch", "compiler", "build_type"
    options = {"shared": [True, False]}
    default_options = {"shared": True}

    @property
    def _top(self):
        return os.path.join(self.recipe_folder, "..", "..")

    def set_version(self):
        text = load(self, os.path.join(self._top, "include", "coffer", "coffer.h"))
        self.version = ".".join(re.findall(r"^#define COFFER_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)$", text, re.MULTILINE))

    def export_sources(self):
        for pattern in ("CMakeLists.txt", "LICENSE", "cmake/*", "docs/coffer-run.1", "include/*", "src/*", "rt/*",
                        "tools/*", "bench/coffer_bench/*"):
            copy(self, pattern, self._top, self.export_sources_folder)

    def validate(self):
        if self.settings.os != "Linux" or self.settings.arch not in ("x86_64", "armv8"):
            raise ConanInvalidConfiguration("Coffer needs 64-bit Linux")

    def package_id(self):
        # It needs no C++ runtime, and its interface is C's.
        self.info.settings.rm_safe("compiler.libcxx")
        self.info.settings.rm_safe("compiler.cppstd")

    def layout(self):
        cmake_layout(self)

    def generate(self):
        toolchain = CMakeToolchain(self)
        toolchain.cache_variables["COFFER_TESTS"] = "OFF"
        toolchain.cache_variables["COFFER_TOOLS"] = "OFF"
        toolchain.generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build(target="coffer_libraries")

    def package(self):
        CMake(self).install()
        copy(self, "LICENSE", self.source_folder, os.path.join(self.package_folder, "licenses"))
        rmdir(self, os.path.join(self.package_folder, "share"))
        for folder in ("cmake", "pkgconfig"):  # Conan writes its own
            rmdir(self, os.path.join(self.package_folder, "lib", folder))
        for name in ("libcoffer", "libcoffer_hardened"):
            rm(self, f"{name}.a" if self.options.shared else f"{name}.so*", os.path.join(self.package_folder, "lib"))

    def package_info(self):
        self.cpp_info.set_property("cmake_file_name", "Coffer")
        self.cpp_info.set_property("pkg_config_name", "coffer")
        kinds = {"core": "coffer_core", "rt": "coffer_rt", "coffer" if self.options.shared else "static": "coffer"}
        for kind, library in kinds.items():
            component = self.cpp_info.components[kind]
            component.set_property("cmake_target_name", f"Coffer::{kind}")
            component.libs = [library]
        main = self.cpp_info.components["coffer" if self.options.shared else "static"]
        flags = ["-Wl,--no-as-needed"] if self.options.shared else ["-Wl,--undefined=malloc"]
        main.sharedlinkflags = main.exelinkflags = flags
