#!/usr/bin/env python3
"""Checks or prints the commands of pages, which are in blocks of the language "console".

  commands.py check PAGE...   refuses blocks without a language, and commands that a shell cannot parse
  commands.py script PAGE     prints the commands of a page as one script, each block after a line with its place in the page

A block whose first line says `console no-run: REASON` is not part of the script.
"""

import pathlib
import subprocess
import sys

NO_RUN = "no-run:"


def blocks(page):
    """Returns the page's blocks as (line number, info string after the fence, text)."""
    found, begun = [], None
    for number, line in enumerate(pathlib.Path(page).read_text(encoding="utf-8").splitlines(), 1):
        shown = line.strip()
        if shown.startswith("```") and begun is None:
            begun = (number, shown[3:].strip(), [])
        elif shown == "```":
            found.append((begun[0], begun[1], "\n".join(begun[2])))
            begun = None
        elif begun:
            begun[2].append(line)
    return found


def run(page):
    """Returns the blocks to run."""
    return [(number, text) for number, mark, text in blocks(page) if mark.split() == ["console"]]


def problem(mark, text):
    language, _, rest = mark.partition(" ")
    if not language:
        return "the block names no language"
    if language in ("sh", "bash", "shell"):
        return f"write console, not {language}"
    if language != "console":
        return ""
    if rest and not (rest.startswith(NO_RUN) and rest.removeprefix(NO_RUN).strip()):
        return f"behind console stands '{rest}', not '{NO_RUN} REASON'"
    read = subprocess.run(["bash", "-n"], input=text, capture_output=True, text=True)
    return read.stderr.strip()


def main(arguments):
    if arguments[:1] == ["script"] and len(arguments) == 2:
        for number, text in run(arguments[1]):
            print(f"echo '--- {arguments[1]}:{number}'\n{text}")
        return 0
    if arguments[:1] != ["check"] or len(arguments) < 2:
        raise SystemExit(__doc__)
    bad = 0
    for page in arguments[1:]:
        for number, mark, text in blocks(page):
            if said := problem(mark, text):
                print(f"{page}:{number}: {said}", file=sys.stderr)
                bad = 1
        if not run(page):
            print(f"{page}: no command is run", file=sys.stderr)
            bad = 1
    return bad


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
