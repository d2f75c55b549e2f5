"""Counts the test cases in ctest's JUnit reports: count.py REPORT... prints "PASSED FAILED SKIPPED".

If a program uses GoogleTest (with GTEST_BRIEF=1) or Python's unittest, the last lines of its output say the number of cases; any
other program counts as one case. If a fixture fails, it counts as failed, and the tests that need it count as skipped.
"""

import os
import re
import sys
import xml.etree.ElementTree

RAN = re.compile(r"^\[={10}\] (\d+) tests? from \d+ test suites? ran\.", re.MULTILINE)
PASSED = re.compile(r"^\[  PASSED  \] (\d+) tests?\.", re.MULTILINE)
SKIPPED = re.compile(r"^\[  SKIPPED \] (\d+) tests?[.,]", re.MULTILINE)
PYTHON_RAN = re.compile(r"^Ran (\d+) tests? in [\d.]+s\n\n((?:OK|FAILED|NO TESTS RAN).*)", re.MULTILINE)
PYTHON_COUNT = re.compile(r"\b(failures|errors|skipped|unexpected successes)=(\d+)")


def last(pattern, text):
    found = pattern.findall(text)
    return int(found[-1]) if found else 0


def count(case):
    """Returns (passed, failed, skipped) of one ctest entry."""
    status = case.get("status")
    if status in ("notrun", "disabled"):
        return 0, 0, 1
    said = case.findtext("system-out") or ""
    if RAN.search(said):
        passed, skipped = last(PASSED, said), last(SKIPPED, said)
        failed = last(RAN, said) - passed - skipped
    elif ran := PYTHON_RAN.findall(said):
        cases, closing = ran[-1]
        counts = {what: int(number) for what, number in PYTHON_COUNT.findall(closing)}
        skipped = counts.pop("skipped", 0)
        failed = min(sum(counts.values()), int(cases) - skipped)  # a case may have several failures
        passed = int(cases) - skipped - failed
    else:
        return (1, 0, 0) if status == "run" else (0, 1, 0)
    if status == "fail":
        failed = max(failed, 1)  # the program failed though all cases passed
    return passed, failed, skipped


def main():
    totals = [0, 0, 0]
    for report in sys.argv[1:]:
        if not os.path.exists(report):
            continue  # a glob that matched nothing
        for case in xml.etree.ElementTree.parse(report).iter("testcase"):
            totals = [total + one for total, one in zip(totals, count(case))]
    print(*totals)


main()
