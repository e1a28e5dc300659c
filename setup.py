"""Machine code for the compiled functions, made while the package is built; all else is in pyproject.toml.

It needs numba. Where it is missing or compilation fails, the package is pure Python and functions are compiled at first use.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from setuptools import setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_py import build_py

ROOT = Path(__file__).resolve().parent
FOLDER = Path("crowdppl/kernels/binaries")


class BuildWithMachineCode(build_py):
    """Build the modules, then the machine code beside them."""

    def run(self):
        """Copy the modules, and compile the functions."""
        super().run()
        folder = ROOT / FOLDER if self.editable_mode else Path(self.build_lib).resolve() / FOLDER
        if not self.editable_mode:  # what an earlier build, for another Python or with other settings, has left
            shutil.rmtree(folder, ignore_errors=True)
        if os.environ.get("CROWDPPL_MACHINE_CODE", "1") == "0":
            return
        command = [sys.executable, "-m", "crowdppl.kernels.compile_all", str(folder)]
        paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
        done = subprocess.run(
            command,
            cwd=ROOT,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(paths)},
            capture_output=True,
            text=True,
        )
        if done.returncode:
            self.warn(f"no machine code was made; functions are compiled at first use\n{done.stderr}")


class Wheel(bdist_wheel):
    """A wheel for one platform if it holds machine code."""

    def get_tag(self):
        """Return the tag of this platform, or that of pure Python."""
        self.root_is_pure = not any((Path(self.bdist_dir) / FOLDER).glob("*.zip"))
        return super().get_tag()


setup(cmdclass={"build_py": BuildWithMachineCode, "bdist_wheel": Wheel})
