#!/usr/bin/env python3
"""Makes small random faults in pure code, one at a time, and counts how many the unit tests notice.

    tests/mutants/mutants.py SIDE [--count=100] [--seed=1] [--jobs=2] [--only=PART OF A PATH]

SIDE is `operator` or `worker`; areas.json says which sources and which tests are its. A fault is one operator or one constant
of one line. A fault that does not compile is drawn again. Works on copies of the tree below build/mutants; prints the faults
that no test noticed and, last, one JSON object. Exits with 1 if fewer than nine in ten were noticed.
"""

import argparse
import concurrent.futures
import filecmp
import json
import pathlib
import queue
import random
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
HERE = pathlib.Path(__file__).resolve().parent
GOAL = 0.9
TEST_SECONDS = 120  # a test that runs longer has noticed an endless loop

# What is replaced by what. Formatted code has spaces around binary operators and none around a template's brackets.
FAULTS = [
    (r" < ", " <= "), (r" <= ", " < "), (r" > ", " >= "), (r" >= ", " > "), (r" == ", " != "), (r" != ", " == "),
    (r" && ", " || "), (r" \|\| ", " && "), (r" \+ ", " - "), (r" - ", " + "), (r" \+= ", " -= "), (r" -= ", " += "),
    (r"\btrue\b", "false"), (r"\bfalse\b", "true"), (r"!(?=[a-z_(])", ""),
    (r"\bstd::min\b", "std::max"), (r"\bstd::max\b", "std::min"),
    (r"(?<![\w.\"'])\d+(?![\w.'])", lambda match: str(int(match.group()) + 1)),
]  # fmt: skip
# Lines without decisions: comments, includes, declarations of templates, messages.
SKIPPED = re.compile(r"^\s*(//|#|\*|template\b|using\b|static_assert\b|namespace\b|\")")


def text_and_strings(line):
    """The line without its comment, and where its string literals are."""
    strings = [match.span() for match in re.finditer(r'"(?:[^"\\]|\\.)*"|\'(?:[^\'\\]|\\.)\'', line)]
    comment = next((m.start() for m in re.finditer("//", line) if not any(a <= m.start() < b for a, b in strings)), len(line))
    return line[:comment], strings


def faults_of(path):
    """(line number, the line with the fault) of every fault that the file can have."""
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if SKIPPED.match(line):
            continue
        text, strings = text_and_strings(line)
        for pattern, replacement in FAULTS:
            if strings and pattern in (r" \+ ", r" - "):
                continue  # texts are added, never subtracted
            for match in re.finditer(pattern, text):
                if not any(a < match.end() and match.start() < b for a, b in strings):
                    changed = replacement(match) if callable(replacement) else replacement
                    yield number, line[: match.start()] + changed + line[match.end() :]


class Tree:
    """A copy of the tree and its build, in which one fault at a time is tried."""

    def __init__(self, folder, area):
        self.source = folder / "tree"
        self.build = folder / "build"
        listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
        for name in listed.rstrip("\0").split("\0"):
            file, copy = ROOT / name, self.source / name
            # Only what differs, with a new time: what was compiled from an earlier copy is compiled again.
            if file.is_file() and not (copy.exists() and filecmp.cmp(file, copy, shallow=False)):
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(file, copy)
                shutil.copymode(file, copy)
        self.run("cmake", "-S", self.source, "-B", self.build, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Debug",
                 "-DCMAKE_CXX_FLAGS_DEBUG=-O0", "-DRINGMASTER_TESTS=ON", *area["configure"])  # fmt: skip
        known = json.loads(self.run("ctest", "--test-dir", self.build, "--show-only=json-v1").stdout)["tests"]
        self.tests = [test["name"] for test in known if re.fullmatch(area["tests"], test["name"])]
        if not self.tests:
            raise SystemExit(f"areas.json: no test is called {area['tests']}")
        self.check_builds("the tree without a fault")
        if self.notice():
            raise SystemExit("the tests fail without any fault; nothing was tried")

    def run(self, *command):
        ran = subprocess.run([str(part) for part in command], capture_output=True, text=True)
        if ran.returncode != 0:
            raise SystemExit(f"{' '.join(map(str, command))} failed:\n{(ran.stdout + ran.stderr)[-3000:]}")
        return ran

    def builds(self):
        command = ["cmake", "--build", self.build, "--target", *self.tests, "--", "-j1"]
        return subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0

    def check_builds(self, what):
        if not self.builds():
            raise SystemExit(f"{what} does not compile: cmake --build {self.build} --target {' '.join(self.tests)}")

    def notice(self):
        """Whether a test fails."""
        names = "^(" + "|".join(self.tests) + ")$"
        command = ["ctest", "--test-dir", self.build, "-R", names, "--stop-on-failure", "--timeout", str(TEST_SECONDS)]
        return subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode != 0

    def try_fault(self, path, number, changed):
        """None if it does not compile, otherwise whether a test noticed."""
        file = self.source / path
        original = file.read_text()
        lines = original.splitlines(keepends=True)
        lines[number - 1] = changed + "\n"
        file.write_text("".join(lines))
        try:
            return self.notice() if self.builds() else None
        finally:
            file.write_text(original)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    areas = json.loads((HERE / "areas.json").read_text())
    parser.add_argument("side", choices=areas)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    area = areas[options.side]

    equivalent = {tuple(known) for known in area["equivalent"]}  # (path, the line with the fault): changes nothing that can be seen
    found = {pattern: list(ROOT.glob(pattern)) for pattern in area["sources"]}
    if missing := [pattern for pattern, files in found.items() if not files]:
        raise SystemExit(f"areas.json: no file is called {', '.join(missing)}")
    paths = sorted({path.relative_to(ROOT) for files in found.values() for path in files})
    faults = [(path, *fault) for path in paths if options.only in str(path) for fault in faults_of(ROOT / path)]
    faults = [fault for fault in faults if (str(fault[0]), fault[2].strip()) not in equivalent]
    print(f"{len(faults)} possible faults in {len(paths)} files", file=sys.stderr, flush=True)
    random.Random(options.seed).shuffle(faults)
    faults = iter(faults)

    trees = queue.Queue()
    for number in range(options.jobs):
        trees.put(Tree(ROOT / "build/mutants" / f"{options.side}-{number}", area))
    tried, survivors = 0, []

    def try_next(_):
        tree = trees.get()
        try:
            for path, number, changed in faults:
                noticed = tree.try_fault(path, number, changed)
                if noticed is not None:
                    return path, number, changed, noticed
            return None
        finally:
            trees.put(tree)

    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for result in pool.map(try_next, range(options.count)):
            if result is None:
                break
            path, number, changed, noticed = result
            tried += 1
            if not noticed:
                survivors.append(result)
                original = (ROOT / path).read_text().splitlines()[number - 1]
                print(f"{path}:{number}: not noticed\n  - {original.strip()}\n  + {changed.strip()}", flush=True)
            print(f"{tried} tried, {tried - len(survivors)} noticed", file=sys.stderr, flush=True)
    noticed = tried - len(survivors)
    print(json.dumps({"side": options.side, "seed": options.seed, "faults": tried, "noticed": noticed, "goal": GOAL}))
    return 0 if tried and noticed >= GOAL * tried else 1


if __name__ == "__main__":
    sys.exit(main())
