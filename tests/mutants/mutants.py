#!/usr/bin/env python3
"""Makes small random faults in pure code, one at a time, and counts how many the unit tests notice.

    tests/mutants/mutants.py SIDE [--count=100] [--seed=1] [--jobs=2] [--only=PART OF A PATH] [--again=FILE] [--check]

SIDE is `operator` or `worker`; areas.json lists its sources and tests. A fault changes one operator or one constant of one line. A
fault that does not compile is replaced by another one. The tree is not changed; do not edit or build the product meanwhile.
Prints the faults that no test noticed and, last, one JSON object. Exits with 1 if the tests noticed fewer than nine in ten.
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
HERE = pathlib.Path(__file__).resolve().parent
GOAL = 0.9
FLAGS = "-w -g0 -fno-sanitize=all -D_GLIBCXX_ASSERTIONS"  # for the file with the fault
# For the test programs. They contain the file, and so its global variables, twice.
ENVIRONMENT = {
    **os.environ,
    "ASAN_OPTIONS": "detect_leaks=0:detect_odr_violation=0:hard_rss_limit_mb=4096",
    "RINGMASTER_PATIENCE": "4",
}

# The replacements. Formatted code has spaces around binary operators and none around a template's brackets.
FAULTS = [
    (r" < ", " <= "), (r" <= ", " < "), (r" > ", " >= "), (r" >= ", " > "), (r" == ", " != "), (r" != ", " == "),
    (r" && ", " || "), (r" \|\| ", " && "), (r" \+ ", " - "), (r" - ", " + "), (r" \+= ", " -= "), (r" -= ", " += "),
    (r"\btrue\b", "false"), (r"\bfalse\b", "true"), (r"!(?=[a-z_(])", ""),
    (r"\bstd::min\b", "std::max"), (r"\bstd::max\b", "std::min"),
    (r"(?<![\w.\"'])\d+(?![\w.'])", lambda match: str(int(match.group()) + 1)),
]  # fmt: skip
# Lines that get no faults: comments, includes, declarations of templates, messages.
SKIPPED = re.compile(r"^\s*(//|#|\*|template\b|using\b|static_assert\b|namespace\b|\")")

OUTPUT = re.compile(r" -o (\S+)")  # the output of a command line


def text_and_strings(line):
    """Returns the line without its comment, and the positions of its string literals."""
    strings = [match.span() for match in re.finditer(r'"(?:[^"\\]|\\.)*"|\'(?:[^\'\\]|\\.)\'', line)]
    comment = next((m.start() for m in re.finditer("//", line) if not any(a <= m.start() < b for a, b in strings)), len(line))
    return line[:comment], strings


def faults_of(path):
    """Yields (line number, the line with the fault) for every fault that the file can have."""
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if SKIPPED.match(line):
            continue
        text, strings = text_and_strings(line)
        for pattern, replacement in FAULTS:
            if strings and pattern in (r" \+ ", r" - "):
                continue  # for texts `+` cannot become `-`
            for match in re.finditer(pattern, text):
                if not any(a < match.end() and match.start() < b for a, b in strings):
                    changed = replacement(match) if callable(replacement) else replacement
                    yield number, line[: match.start()] + changed + line[match.end() :]


def known_as(fault):
    """Returns the fault as `equivalent` in areas.json lists it: its path, and its line without the comment."""
    path, _, line = fault
    return str(path), text_and_strings(line)[0].strip()


class Build:
    """The `dev` build, which has no fault. The file with a fault is compiled separately and linked first: the linker
    uses the first definition of each function."""

    def __init__(self, area, jobs):
        self.folder = ROOT / "build/dev"
        run("cmake", "-S", ROOT, "--preset", "dev")
        known = json.loads(run("ctest", "--test-dir", self.folder, "--show-only=json-v1"))["tests"]
        tests = [test["name"] for test in known if re.fullmatch(area["tests"], test["name"])]
        if not tests:
            raise SystemExit(f"areas.json: no test is called {area['tests']}")
        run("cmake", "--build", self.folder, "--target", *tests, "--", "-j", jobs)
        self.compiles = {}  # by the file's path below the project
        for entry in json.loads((self.folder / "compile_commands.json").read_text()):
            unity = entry["file"]  # includes the files of its library, one after another
            for file in re.findall(r'^#include "(.+\.cc)"', pathlib.Path(unity).read_text(), re.MULTILINE):
                self.compiles[file] = entry["command"].replace(unity, str(ROOT / file))
        self.links = {name: run("ninja", "-C", self.folder, "-t", "commands", name).splitlines()[-1] for name in tests}
        self.seconds = {}
        for name, link in self.links.items():
            started = time.monotonic()
            if fails(self.folder / OUTPUT.search(link)[1], 600, self.folder):
                raise SystemExit(f"{name} fails without any fault; nothing was tried")
            self.seconds[name] = time.monotonic() - started

    def tests_of(self, path, library):
        """Returns the programs that link the library: first the program of the file's folder, then the others, fastest first."""
        own = "_".join(path.parts[1:3]) + "_test"
        programs = [name for name, link in self.links.items() if f"/lib{library}.a " in link]
        return sorted(programs, key=lambda name: (name != own, self.seconds[name]))

    def try_fault(self, path, number, changed, scratch):
        """Returns None if the fault does not compile, otherwise whether a test noticed it."""
        lines = (ROOT / path).read_text().splitlines(keepends=True)
        lines[number - 1] = changed + "\n"
        source, faulty = scratch / "fault.cc", scratch / "fault.o"
        source.write_text("".join(lines))
        original = self.compiles[str(path)]
        command = OUTPUT.sub(f" {FLAGS} -o {faulty}", original).replace(str(ROOT / path), str(source))
        if subprocess.run(command, shell=True, cwd=self.folder, stderr=subprocess.DEVNULL).returncode != 0:
            return None
        for name in self.tests_of(path, re.search(r"CMakeFiles/(\w+)\.dir", original)[1]):
            program = scratch / name
            link = OUTPUT.sub(f" {faulty} -Wl,-z,muldefs -Wl,--strip-debug -o {program}", self.links[name])
            subprocess.run(link, shell=True, cwd=self.folder, check=True)
            if fails(program, 5 + 10 * self.seconds[name], scratch):
                return True
        return False


def run(*command):
    ran = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    if ran.returncode != 0:
        raise SystemExit(f"{' '.join(map(str, command))} failed:\n{(ran.stdout + ran.stderr)[-3000:]}")
    return ran.stdout


def fails(program, seconds, folder):
    """Returns whether the test program fails. A timeout counts as a failure, and so does too much memory."""
    command = ["prlimit", "--core=0", program, "--gtest_fail_fast"]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    try:
        return subprocess.run(command, cwd=folder, env=ENVIRONMENT, timeout=seconds, **quiet).returncode != 0
    except subprocess.TimeoutExpired:
        return True


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    areas = json.loads((HERE / "areas.json").read_text())
    parser.add_argument("side", choices=areas)
    parser.add_argument("--check", action="store_true", help="only check areas.json")
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only", default="")
    parser.add_argument("--again", type=pathlib.Path, help="try the faults that an earlier run printed")
    options = parser.parse_args()
    area = areas[options.side]

    equivalent = {tuple(known) for known in area["equivalent"]}  # (path, the faulty code): does not change the behaviour
    found = {pattern: list(ROOT.glob(pattern)) for pattern in area["sources"]}
    if missing := [pattern for pattern, files in found.items() if not files]:
        raise SystemExit(f"areas.json: no file is called {', '.join(missing)}")
    paths = sorted({path.relative_to(ROOT) for files in found.values() for path in files})
    faults = [(path, *fault) for path in paths for fault in faults_of(ROOT / path)]
    if unknown := equivalent - {known_as(fault) for fault in faults}:
        raise SystemExit("areas.json: no fault gives these lines:\n" + "\n".join(f"  {path}: {code}" for path, code in sorted(unknown)))
    if options.check:
        return 0
    faults = [fault for fault in faults if options.only in str(fault[0]) and known_as(fault) not in equivalent]
    if options.again:
        printed = set(re.findall(r"^(.+):\d+: not noticed\n.*\n  \+ (.*)$", options.again.read_text(), re.MULTILINE))
        faults = [fault for fault in faults if (str(fault[0]), fault[2].strip()) in printed]
    print(f"{len(faults)} possible faults in {len(paths)} files", file=sys.stderr, flush=True)
    random.Random(options.seed).shuffle(faults)
    faults = iter(faults)

    build = Build(area, options.jobs)
    tried, survivors = 0, []

    def try_next(_):
        with tempfile.TemporaryDirectory() as scratch:
            for path, number, changed in faults:
                noticed = build.try_fault(path, number, changed, pathlib.Path(scratch))
                if noticed is not None:
                    return path, number, changed, noticed
            return None

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
