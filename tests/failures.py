"""Prints why tests failed, from ctest's JUnit reports: failures.py REPORT... prints a few lines for each failed program.

The lines are printed at the end of a run, because a log often keeps only its end. They are the first failure of each case of
GoogleTest or unittest, a sanitizer's report, the line with which a shell test ends with the lines around it and the
program's last lines, which say what state the cluster was in.
"""

import os
import re
import sys
import xml.etree.ElementTree

BEGINS = re.compile(r"(: Failure$|^(FAIL|ERROR): |(ERROR|WARNING): \w+Sanitizer|runtime error: )")
# What ends a shell test, before it prints the state of the cluster: fail, die, or kubectl.
ENDS = re.compile(r"^(FAILED: |error: |Error from server|Unable to connect)")
CASE = re.compile(r"^\[  FAILED  \] \S+ \(\d+ ms\)|^(FAIL|ERROR): ")
LINES_EACH = 5
LINES_OF_STATE = 15
LINES_OF_A_PROGRAM = 2 * LINES_OF_STATE + LINES_EACH
COLUMNS = 300


def excerpt(said):
    """Returns the lines of a program's output that say what failed."""
    lines = [line for line in said.splitlines() if line.strip()]
    kept = set()
    wanted = True  # only the first failure of a case
    for at, line in enumerate(lines):
        if wanted and BEGINS.search(line):
            kept.update(range(at, min(at + LINES_EACH, len(lines))))
            if line.startswith(("FAIL: ", "ERROR: ")):  # the end of a traceback has the error
                end = next((i for i in range(at + 1, len(lines)) if lines[i].startswith(("=====", "Ran "))), len(lines))
                kept.update(range(max(at, end - 3), end))
            wanted = False
        if CASE.match(line):
            kept.add(at)
            wanted = True
    if not kept:
        end = next((at for at, line in enumerate(lines) if ENDS.match(line)), len(lines) - 1)
        kept.update(range(max(0, end - LINES_EACH + 1), min(end + LINES_OF_STATE, len(lines))))
        kept.update(range(max(0, len(lines) - LINES_OF_STATE), len(lines)))
    chosen = sorted(kept)[:LINES_OF_A_PROGRAM]
    return [lines[at][:COLUMNS] for at in chosen]


def main():
    for report in filter(os.path.exists, sys.argv[1:]):  # a glob may have matched nothing
        for case in xml.etree.ElementTree.parse(report).iter("testcase"):
            if case.get("status") == "fail":
                print(f"failed: {case.get('name')}, after {float(case.get('time') or 0):.0f} s")
                print(*(f"  {line}" for line in excerpt(case.findtext("system-out") or "")), sep="\n")


main()
