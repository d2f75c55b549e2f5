#!/usr/bin/env python3
"""Refuses includes against the layers.

layers.txt says which folders a folder may include. known_arrows.txt lists the includes that break this today. That list must
be exact: a line goes when its include goes.

  arrows.py [MOST]    check; with MOST the list may have that many lines at most
  arrows.py --list    print what the list has to say, after files have moved
"""

import fnmatch
import os
import re
import sys

LAYERS, KNOWN = "tests/lint/layers.txt", "tests/lint/known_arrows.txt"
INCLUDE = re.compile(r'\s*#\s*include\s+"([^"]+)"')
problems = []


def lines(path):
    with open(path, encoding="utf-8") as text:
        for number, line in enumerate(text, 1):
            line = line.split("#", 1)[0].strip()
            if line:
                yield number, line


def read_layers():
    """The folders that each folder may include."""
    allowed = {}
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
        allowed[folder] = may
    return allowed


def sources(allowed):
    for top in sorted({folder.split("/")[0] for folder in allowed}):
        for folder, _, names in sorted(os.walk(top)):
            for name in sorted(names):
                if name.endswith((".h", ".cc", ".cu", ".cuh", ".c")):
                    yield folder, f"{folder}/{name}"


def find_arrows(allowed):
    """The includes that break the layers: {"FOLDER -> HEADER": what to print}."""
    against, unlisted = {}, set()
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
                if not os.path.exists(header):
                    problems.append(f"{path}:{number}: write {header} as a path from the root of the repository")
                    continue
                to = os.path.dirname(header)
                if to != folder and to not in allowed[folder]:
                    may = " ".join(sorted(allowed[folder])) or "no other folder"
                    against.setdefault(f"{folder} -> {header}", []).append(
                        f"{path}:{number}: {folder} must not include {header}; it may include {may} ({LAYERS})")
    return against


def main():
    os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../.."))
    against = find_arrows(read_layers())
    if sys.argv[1:] == ["--list"]:
        print(*sorted(against), sep="\n")
        return 0
    known = dict((line, number) for number, line in lines(KNOWN))
    for arrow, said in sorted(against.items()):
        if arrow not in known:
            problems.extend(said)
    for arrow, number in known.items():
        if arrow not in against:
            problems.append(f"{KNOWN}:{number}: nothing includes this any more, remove the line: {arrow}")
    if len(sys.argv) > 1 and len(known) > int(sys.argv[1]):
        problems.append(f"{KNOWN}: the list must not grow: it has {len(known)} lines, and had {sys.argv[1]}")
    for problem in problems:
        print(problem)
    return 1 if problems else 0


sys.exit(main())
