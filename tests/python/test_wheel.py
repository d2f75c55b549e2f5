"""Tests the package's wheel: each build has the same bits, and the package works after pip installs the wheel or the folder."""

import pathlib
import subprocess
import sys
import tempfile
import unittest
import zipfile

TREE = pathlib.Path(__file__).resolve().parents[2]
SOURCE = TREE / "worker" / "python"


def run(*command):
    return subprocess.run([str(word) for word in command], check=True, capture_output=True, text=True).stdout


def files_in(folder):
    """Returns the files' bytes by path, except files that Python compiled."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*")
            if path.is_file() and "__pycache__" not in path.parts}


class Wheel(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def build(self, name):
        return pathlib.Path(run(sys.executable, SOURCE / "build_wheel.py", self.folder / name).strip())

    def install(self, source):
        """Installs the package; returns its version and the folder of its modules."""
        target = self.folder / "installed"
        run(sys.executable, "-m", "pip", "install", "--no-index", "--no-deps", "--disable-pip-version-check",
            "--root-user-action=ignore", "--no-compile", "--target", target, source)
        # Without PyTorch, which the package's own tests import.
        said = run(sys.executable, "-I", "-c", f"import sys; sys.path.insert(0, {str(target)!r})\n"
                   "import importlib.metadata, importlib.util\n"
                   "print(importlib.metadata.version('ringmaster'), importlib.util.find_spec('ringmaster').origin)")
        version, origin = said.split()
        return version, pathlib.Path(origin).parent

    def check(self, source):
        version, package = self.install(source)
        self.assertIn(f"project(ringmaster VERSION {version} ", (TREE / "CMakeLists.txt").read_text(encoding="utf-8"))
        ours = files_in(SOURCE / "ringmaster")
        self.assertEqual(files_in(package), ours)
        self.assertLessEqual({"py.typed", "job.py", "integrations/transformers.py"}, ours.keys())

    def test_the_same_bits_each_time(self):
        self.assertEqual(self.build("one").read_bytes(), self.build("two").read_bytes())

    def test_pip_installs_it(self):
        wheel = self.build("dist")
        self.assertIsNone(zipfile.ZipFile(wheel).testzip())
        self.check(wheel)

    def test_pip_installs_the_folder(self):
        self.check(SOURCE)


if __name__ == "__main__":
    unittest.main()
