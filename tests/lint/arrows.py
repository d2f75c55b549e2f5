#!/usr/bin/env python3
"""Refuses includes that layers.txt does not allow, and names in it that no include needs."""

import fnmatch
import os
import re
import sys

LAYERS = "tests/lint/layers.txt"
INCLUDE = re.compile(r'\s*#\s*include\s+"([^"]+)"')
problems = []


def lines(path):
    with open(path, encoding="utf-8") as text:
        for number, line in enumerate(text, 1):
            line = line.split("#", 1)[0].strip()
            if line:
                yield number, line


def read_layers():
    """Returns the folders that each folder may include, and (line, folder, name, the name's folders) for each name."""
    allowed, entries = {}, []
    for number, line in lines(LAYERS):
        folder, _, names = line.partition(":")
        if not os.path.isdir(folder):
            problems.append(f"{LAYERS}:{number}: no such folder: {folder}")
        if folder in allowed:
            problems.append(f"{LAYERS}:{number}: {folder} is listed twice")
        may = set()
        for name in names.split():
            found = fnmatch.filter(allowed, name)
            if not found:
                problems.append(f"{LAYERS}:{number}: {folder} may include only folders of lines above, not {name}")
            may.update(found)
            entries.append((number, folder, name, set(found)))
        allowed[folder] = may
    return allowed, entries


def sources(allowed):
    for top in sorted({folder.split("/")[0] for folder in allowed}):
        for folder, _, names in sorted(os.walk(top)):
            for name in sorted(names):
                if name.endswith((".h", ".cc", ".cu", ".cuh", ".c")):
                    yield folder, f"{folder}/{name}"


def check_includes(allowed):
    """Returns the folders that each folder includes."""
    unlisted, used = set(), {folder: set() for folder in allowed}
    for folder, path in sources(allowed):
        if folder not in allowed:
            if folder not in unlisted:
                problems.append(f"{path}: {folder} is not in {LAYERS}: add a line that says what it may include")
            unlisted.add(folder)
            continue
        with open(path, encoding="utf-8") as text:
            for number, line in enumerate(text, 1):
                found = INCLUDE.match(line)
                if not found:
                    continue
                header = found[1]
                to = os.path.dirname(header)
                used[folder].add(to)
                if not os.path.exists(header):
                    problems.append(f"{path}:{number}: write {header} as a path from the root of the repository")
                elif to != folder and to not in allowed[folder]:
                    may = " ".join(sorted(allowed[folder])) or "no other folder"
                    problems.append(f"{path}:{number}: {folder} must not include {header}; it may include {may} ({LAYERS})")
    return used


os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../.."))
layers, names_listed = read_layers()
includes = check_includes(layers)
for line_number, from_folder, listed, folders in names_listed:
    if not folders & includes[from_folder]:
        problems.append(f"{LAYERS}:{line_number}: {from_folder} includes nothing from {listed}: remove the name")
for problem in problems:
    print(problem)
sys.exit(1 if problems else 0)
