#!/usr/bin/env python3
"""Writes the 1,797 handwritten 8x8 digits in scikit-learn's package as IDX files.

Usage: digits_to_idx.py FOLDER

The package is downloaded once with pip into ${RINGMASTER_CACHE:-$HOME/.cache/ringmaster}; nothing is installed. The data is
split by writer: eleven forms are for training (train-*, 1,415 samples), the last three are held out (t10k-*, 382), so that
accuracy is measured on writers whom the network has not seen. The files are the same every time, 117 kB in all. Needs
Python's standard library and pip.
"""

import csv
import gzip
import io
import os
import pathlib
import struct
import subprocess
import sys
import zipfile

PACKAGE = "scikit-learn==1.5.2"
MEMBER = "sklearn/datasets/data/digits.csv.gz"
SAMPLES = 1797
SIDE = 8
LEVELS = 16  # grey values are 0 ... 16
# The rows are in the order in which they were collected, form by form. All forms have the same digits, first three times
# 0 to 9. This row is the first of the twelfth of fourteen forms.
FIRST_HELD_OUT = 1415
FORM_BEGINS = list(range(10)) * 3


def cache_folder():
    home = os.environ.get("RINGMASTER_CACHE") or os.path.join(os.path.expanduser("~"), ".cache", "ringmaster")
    return pathlib.Path(home) / "digits"


def replace(path, data):
    """Replaces a file atomically, because other processes may be reading the file."""
    aside = path.with_name(f"{path.name}.{os.getpid()}")
    aside.write_bytes(data)
    aside.rename(path)


def download(folder):
    """Returns the package's wheel in `folder`; downloads it if it is missing."""
    folder.mkdir(parents=True, exist_ok=True)
    # The wheel is only unzipped, so every machine can use the wheel of one fixed platform.
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps",
               "--only-binary=:all:", "--python-version=3.11", "--platform=manylinux2014_x86_64",
               "--dest", str(folder), PACKAGE]
    if subprocess.run([sys.executable, "-m", "pip", "--version"], capture_output=True).returncode != 0:
        sys.exit("digits_to_idx.py: this Python has no pip; install the Debian package python3-pip")
    print(f"downloading {PACKAGE} (13 MB) for its handwritten digits", file=sys.stderr)
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode != 0:
        sys.exit(f"digits_to_idx.py: cannot download {PACKAGE}:\n{result.stderr.strip()}")
    return next(folder.glob("scikit_learn-*.whl"))


def read_rows():
    """Returns the digits' rows of numbers: 64 grey values and the label."""
    folder = cache_folder()
    kept = folder / "digits.csv.gz"
    if not kept.exists():
        wheel = download(folder)
        with zipfile.ZipFile(wheel) as archive:
            data = archive.read(MEMBER)
        replace(kept, data)
        wheel.unlink(missing_ok=True)
    text = gzip.decompress(kept.read_bytes()).decode("ascii")
    rows = [[int(float(value)) for value in row] for row in csv.reader(io.StringIO(text))]
    if len(rows) != SAMPLES or any(len(row) != SIDE * SIDE + 1 for row in rows):
        sys.exit(f"digits_to_idx.py: {kept}: expected {SAMPLES} rows of {SIDE * SIDE + 1} numbers; delete it and retry")
    if [row[-1] for row in rows[FIRST_HELD_OUT:][:len(FORM_BEGINS)]] != FORM_BEGINS:
        sys.exit(f"digits_to_idx.py: {kept}: expected a writer's form to begin in row {FIRST_HELD_OUT}; delete it and retry")
    return rows


def write_idx(folder, prefix, rows):
    """Writes the two IDX files, images and labels, of one part of the data."""
    pixels = bytes(value * 255 // LEVELS for row in rows for value in row[:-1])
    labels = bytes(row[-1] for row in rows)
    header = struct.pack(">IIII", 0x803, len(rows), SIDE, SIDE)
    replace(folder / f"{prefix}-images-idx3-ubyte", header + pixels)
    replace(folder / f"{prefix}-labels-idx1-ubyte", struct.pack(">II", 0x801, len(rows)) + labels)


def main():
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__.strip())
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    rows = read_rows()
    write_idx(folder, "train", rows[:FIRST_HELD_OUT])
    write_idx(folder, "t10k", rows[FIRST_HELD_OUT:])


if __name__ == "__main__":
    main()
