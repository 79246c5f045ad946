# SPDX-License-Identifier: Apache-2.0
"""Packs the library as it was built (cmake --build build/release) into a wheel: nothing is compiled here.

    cd python && python3 -m build --no-isolation --wheel

SLIPSTREAM_BUILD names another build folder than ../build/release.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import sysconfig

from setuptools import Distribution, setup
from setuptools.command.build_py import build_py

HERE = pathlib.Path(__file__).resolve().parent
BUILD = pathlib.Path(os.environ.get("SLIPSTREAM_BUILD", HERE.parent / "build" / "release")).resolve()


def version():
    cache = BUILD / "CMakeCache.txt"
    if not cache.is_file():
        sys.exit(f"setup.py: expected a build folder in {BUILD} (or SLIPSTREAM_BUILD), got none")
    return re.search(r"^CMAKE_PROJECT_VERSION:STATIC=(.+)$", cache.read_text(), re.M).group(1)


class BuildWithLibrary(build_py):
    """The package's own files, the extension module, and the library beside it, where its search path begins."""

    def run(self):
        super().run()
        staged = BUILD / "wheel"
        shutil.rmtree(staged, ignore_errors=True)
        for component in ("python3-slipstream", "libslipstream0"):
            command = ["cmake", "--install", BUILD, "--prefix", staged, "--component", component, "--strip"]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        package = pathlib.Path(self.build_lib) / "slipstream"
        suffix = sysconfig.get_config_var("EXT_SUFFIX")
        extension = list(staged.rglob("_native*" + suffix))
        library = [f for f in staged.rglob("libslipstream.so.0")]
        if len(extension) != 1 or len(library) != 1:
            sys.exit(f"setup.py: expected the module _native{suffix} and libslipstream.so.0 in {BUILD}, got another build")
        for file in extension + library:
            shutil.copy2(file, package / file.name)  # follows links: one file of that name


class Binary(Distribution):
    def has_ext_modules(self):
        return True


setup(version=version(), distclass=Binary, cmdclass={"build_py": BuildWithLibrary})
