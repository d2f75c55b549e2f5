#!/usr/bin/env python3
"""Writes the wheel of the package `ringmaster` into a folder and prints its path: build_wheel.py FOLDER.

`make wheel` and pip (see pyproject.toml) call this script. The same sources produce the same bytes.
"""

import base64
import hashlib
import pathlib
import re
import sys
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
TREE = HERE.parent.parent
METADATA = """\
Metadata-Version: 2.1
Name: ringmaster
Version: {version}
Summary: Elastic training of PyTorch models: with a few changed lines, a script recovers from faults without a restart
License: Apache-2.0
License-File: LICENSE
Requires-Python: >=3.10
Requires-Dist: torch>=2.2
"""
WHEEL = """\
Wheel-Version: 1.0
Generator: ringmaster
Root-Is-Purelib: true
Tag: py3-none-any
"""


def version_of_tree():
    """Returns the version that CMakeLists.txt sets for all programs."""
    text = (TREE / "CMakeLists.txt").read_text(encoding="utf-8")
    return re.search(r"^project\(ringmaster VERSION ([0-9.]+)", text, re.MULTILINE)[1]


def files_of(version):
    """Returns the wheel's files by name; RECORD comes last."""
    information = f"ringmaster-{version}.dist-info"
    sources = [path for path in (HERE / "ringmaster").rglob("*") if path.suffix == ".py" or path.name == "py.typed"]
    files = {path.relative_to(HERE).as_posix(): path.read_bytes() for path in sorted(sources)}
    files[f"{information}/LICENSE"] = (TREE / "LICENSE").read_bytes()
    files[f"{information}/METADATA"] = METADATA.format(version=version).encode()
    files[f"{information}/WHEEL"] = WHEEL.encode()
    record = ""
    for name, content in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        record += f"{name},sha256={digest},{len(content)}\n"
    files[f"{information}/RECORD"] = (record + f"{information}/RECORD,,\n").encode()
    return files


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    """Implements the hook of PEP 517: writes the wheel into the folder and returns its name."""
    version = version_of_tree()
    name = f"ringmaster-{version}-py3-none-any.whl"
    with zipfile.ZipFile(pathlib.Path(wheel_directory) / name, "w", zipfile.ZIP_STORED) as wheel:
        for path, content in files_of(version).items():
            entry = zipfile.ZipInfo(path)  # dated 1980
            entry.external_attr = 0o100644 << 16
            wheel.writestr(entry, content)
    return name


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    print(folder / build_wheel(folder))


if __name__ == "__main__":
    main()
