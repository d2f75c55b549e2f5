#!/usr/bin/env python3
"""Compiles each header by itself, as if it were a source: headers.py HEADER...

The flags are those of the preset "lint" (build/lint/compile_commands.json) for the source of the same name, for a source that
includes the header, or for a source in its folder. Headers that only the CUDA build uses are skipped and counted.
With ccache, the next run compiles only the headers that have changed.

  headers.py --built FILE...    prints each FILE that the preset builds or has flags for
"""

import concurrent.futures
import json
import os
import re
import shlex
import shutil
import subprocess
import sys

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../.."))
BUILD = "build/lint"
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)


class Commands:
    """Maps each source to its compile command, and each header to the sources that include it."""

    def __init__(self):
        with open(f"{BUILD}/compile_commands.json", encoding="utf-8") as text:
            entries = json.load(text)
        self.by_source = {os.path.relpath(entry["file"], ROOT): entry for entry in entries}
        self.by_folder, self.by_header = {}, {}
        for source, entry in self.by_source.items():
            self.by_folder.setdefault(os.path.dirname(source), entry)
            if os.path.exists(source):
                with open(source, encoding="utf-8", errors="replace") as text:
                    for header in INCLUDE.findall(text.read()):
                        self.by_header.setdefault(header, entry)

    def of(self, path):
        """Returns the entry whose flags fit the file, or None if the preset does not build the file."""
        if path in self.by_source:
            return self.by_source[path]
        if not path.endswith(".h"):
            return None
        for suffix in (".cc", ".cu"):
            source = path[:-2] + suffix
            if os.path.exists(source):
                return self.by_source.get(source)
        return self.by_header.get(path) or self.by_folder.get(os.path.dirname(path))


def compile_alone(header, entry):
    """Returns the compiler's messages about the header; empty if there are none."""
    unit = os.path.abspath(f"{BUILD}/headers/{header}.cc")
    os.makedirs(os.path.dirname(unit), exist_ok=True)
    if not os.path.exists(unit):
        with open(unit, "w", encoding="utf-8") as text:
            text.write(f'#include "{header}"\n')
    command = shlex.split(entry["command"])
    command = [word for word in command[: command.index("-o")] if word not in ("-g", "-g1")]
    if shutil.which("ccache"):  # it does not support -fsyntax-only; an object without debug information costs little more
        command = ["ccache", *command, "-O0", "-c", unit, "-o", unit + ".o"]
    else:
        command = [*command, "-fsyntax-only", unit]
    said = subprocess.run(command, cwd=entry["directory"], capture_output=True, text=True, check=False)
    return "" if said.returncode == 0 else f"{header} does not compile by itself:\n{said.stderr}"


def main():
    os.chdir(ROOT)
    commands = Commands()
    if sys.argv[1:2] == ["--built"]:
        for path in sys.argv[2:]:
            if commands.of(path):
                print(path)
        return 0
    entries = {header: commands.of(header) for header in sys.argv[1:]}
    left_out = [header for header, entry in entries.items() if not entry]
    if left_out:
        print(f"{len(left_out)} headers that this build does not use are left out: {' '.join(left_out)}")
    jobs = int(os.environ.get("LINT_JOBS") or os.cpu_count() or 1)
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        results = list(pool.map(lambda item: compile_alone(*item), ((h, e) for h, e in entries.items() if e)))
    bad = [said for said in results if said]
    for said in bad:
        print(said)
    return 1 if bad else 0


sys.exit(main())
