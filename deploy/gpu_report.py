#!/usr/bin/env python3
"""Makes the report of a machine with GPUs: the results of gpu-box.sh, without names of hosts and users and without paths.

  gpu_report.py FOLDER   writes report.json and report.md into FOLDER, from the files that gpu-box.sh left there

FOLDER has build.txt (ringmaster-train --check-build), tests.xml (ctest --output-junit) and NAME.log for each figure: the output of its
command, and the exit code. docs/render.py shows the reports of docs/gpu-reports/ with the functions of this file.
"""

import datetime
import getpass
import json
import os
import pathlib
import re
import socket
import subprocess
import sys
import xml.etree.ElementTree

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "bench"))
import results  # commit, machine and the text of a value, as the figures have them

FIGURES = ["allreduce", "training", "pytorch", "partial-fc"]  # B12 is in the output of the tests
FORM = {"form": int, "date": str, "commit": str, "machine": str, "kernel": str, "driver": str, "topology": list,
        "gpus": list, "build": dict, "tests": list, "figures": list}  # fmt: skip
PATH = re.compile(r"(?<![\w./])/[\w.+-]+(?:/[\w.+-]*)+")
CASE = re.compile(r"\[ +(RUN|OK|FAILED|SKIPPED) +\] ([\w/.]+)(?: \((\d+) ms\))?$")
MEASURE = re.compile(r"[a-z][^:]*: \d+ (ms|us, .*)")


# --- making one


def nvidia_smi(*arguments):
    return subprocess.run(["nvidia-smi", *arguments], check=True, capture_output=True, text=True).stdout


def plain(text):
    """Returns the text without the terminal's escape sequences for underlines."""
    return re.sub(r"\x1b\[[\d;]*m", "", text)


def gpus():
    """Returns the GPUs and the driver's version."""
    found, driver = [], ""
    for line in nvidia_smi("--query-gpu=name,memory.total,compute_cap,driver_version", "--format=csv,noheader,nounits").splitlines():
        name, memory, capability, driver = (cell.strip() for cell in line.split(","))
        found.append({"name": name, "memory_mib": int(memory) if memory.isdigit() else None, "compute_capability": capability})
    return found, driver


def build(text):
    found = {name: rest for name, rest in re.findall(r"\[X\] (LibTorch|CUDA|NCCL|Gloo) (.*)", text)}
    if driver := re.search(r"driver for CUDA ([\d.]+)", text):
        found["CUDA of the driver"] = driver[1]
    return found


def cases(said):
    """Returns the test cases of a GoogleTest program, with the values that they measured."""
    found = []
    for line in said.splitlines():
        if ended := CASE.match(line):
            word, name, millis = ended.groups()
            if word == "RUN":  # stays "failed" if the program crashes in this case
                found.append({"name": name, "result": "failed", "seconds": None, "measured": []})
            elif found and found[-1]["name"] == name:
                found[-1]["result"] = {"OK": "passed", "FAILED": "failed", "SKIPPED": "skipped"}[word]
                found[-1]["seconds"] = int(millis or 0) / 1000
        elif found and MEASURE.fullmatch(line):
            found[-1]["measured"].append(line)
    return found


def tests(path):
    """Returns the tests (each case of the GPU test program is one), and that program's lines for figure B12."""
    found, sizes = [], []
    for test in xml.etree.ElementTree.parse(path).getroot().iter("testcase"):
        skipped = test.find("skipped[@message='SKIP_RETURN_CODE=77']") is not None  # otherwise it could not be started
        result = "passed" if test.get("status") == "run" else "skipped" if skipped else "failed"
        said = test.findtext("system-out") or ""
        inside = cases(said) if test.get("name") == "trainer_gpu_test" else []
        found += inside
        if not inside or (result == "failed" and all(case["result"] != "failed" for case in inside)):
            found.append({"name": test.get("name"), "result": result, "seconds": float(test.get("time") or 0), "measured": []})
        sizes += [json.loads(line) for line in said.splitlines() if line.startswith('{"figure":"B12"')]
    return found, {"figure": "B12", "result": {"sizes": sizes} if sizes else None}


def figure(folder, name):
    """Returns the last result in the log, a JSON object; None if the command failed."""
    *said, code = (folder / f"{name}.log").read_text(encoding="utf-8", errors="replace").splitlines()
    objects = [json.loads(line) for line in said if line.startswith(('{"summary":', '{"operation":', '{"setting":'))]
    result = objects[-1] if code == "exit 0" and objects else None
    return {"figure": name, "result": result and result.get("summary", result)}


def without_names(value, names):
    """Returns the value without paths and without the names of this machine and its user."""
    if isinstance(value, dict):
        return {key: without_names(part, names) for key, part in value.items()}
    if isinstance(value, list):
        return [without_names(part, names) for part in value]
    if not isinstance(value, str):
        return value
    value = PATH.sub("…", value)
    for name in names:
        value = re.sub(rf"(?<![\w-]){re.escape(name)}(?![\w-])", "…", value)
    return value


def names_here():
    user = os.environ.get("USER") or getpass.getuser()
    host = os.environ.get("HOSTNAME") or socket.gethostname()
    return [name for name in (host, host.split(".")[0], user) if name not in ("", "root", "localhost")]


def make(folder):
    found, driver = gpus()
    tested, b12 = tests(folder / "tests.xml")
    report = {
        "form": 1,
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d"),
        "commit": results.commit(),
        "machine": results.machine(),
        "kernel": os.uname().release,
        "driver": driver,
        "topology": [line.rstrip() for line in plain(nvidia_smi("topo", "-m")).splitlines() if line.strip()],
        "gpus": found,
        "build": build((folder / "build.txt").read_text(encoding="utf-8")),
        "tests": tested,
        "figures": [b12] + [figure(folder, name) for name in FIGURES],
    }
    return without_names(report, names_here())


# --- showing them


def read(path):
    report = json.loads(path.read_text(encoding="utf-8"))
    lacking = sorted(key for key, kind in FORM.items() if not isinstance(report.get(key), kind))
    if lacking or report["form"] != 1:
        raise SystemExit(f"{path.name} is not a report of gpu-box.sh: check {', '.join(lacking) or 'form'}")
    if report != without_names(report, []):
        raise SystemExit(f"{path.name} names paths of the machine that made it; take them out")
    return report


def chips(report):
    names = [gpu["name"] for gpu in report["gpus"]]
    return ", ".join(f"{names.count(name)} × {name}" for name in dict.fromkeys(names))


def counted(report):
    words = [test["result"] for test in report["tests"]]
    return ", ".join(f"{words.count(word)} {word}" for word in ("passed", "failed", "skipped") if word in words or word != "skipped")


def result_of(report, name):
    return next((entry["result"] for entry in report["figures"] if entry["figure"] == name), None)


def value_of(report, name):
    """Returns the main value of a figure, for the overview."""
    result = result_of(report, name)
    if result is None:
        return "failed"
    if name == "B12":
        return f"≥ {results.text_of(min(size['of_bare'] for size in result['sizes']))} of bare calls"
    if name == "allreduce":
        return f"{results.text_of(max(row['in_place']['busbw_gb_s'] for row in result['rows']))} GB/s, {result['ranks']} ranks"
    if name == "pytorch":
        failed = [setting for setting, rate in result["tried"].items() if rate is None]
        value = f"{results.text_of(result['tried'][result['setting']])} samples/s, {result['setting']}"
        return f"{value}; {' and '.join(failed)} failed" if failed else value
    rate = result["global_batch"] / result["step_ms_median"] * 1000
    value = f"{results.text_of(rate)} samples/s, {result['world_size']} ranks"
    peer = result_of(report, "pytorch") if name == "training" else None
    if peer is None or None in peer["tried"].values():  # a setting that failed may have been the fastest
        return value
    return f"{value}, {results.text_of(rate / peer['tried'][peer['setting']])} × PyTorch"



def table(head, rows):
    return ["| " + " | ".join(cells) + " |" for cells in (head, ["---"] * len(head), *rows)] + [""]


def overview(reports):
    head = ["Day, commit", "GPUs", "Driver", "NCCL", "Tests", "B12", "allreduce", "training", "PyTorch", "partial-fc"]
    return table(head, [
        [f"{report['date']}, {report['commit']}", chips(report), report["driver"], report["build"].get("NCCL", "–"), counted(report)]
        + [value_of(report, name) for name in ["B12", *FIGURES]]
        for report in reports
    ])  # fmt: skip


def markdown(report):
    facts = [[key, results.text_of(report[key])] for key in ("date", "commit", "machine", "kernel", "driver")]
    facts += [["GPUs", "; ".join(f"{gpu['name']}, {gpu['memory_mib']} MiB, {gpu['compute_capability']}" for gpu in report["gpus"])]]
    facts += [[name, results.text_of(value)] for name, value in report["build"].items()]
    rows = [
        [test["name"], test["result"], results.text_of(test["seconds"]), "; ".join(test["measured"])]
        for test in report["tests"]
    ]  # fmt: skip
    figures = [[entry["figure"], value_of(report, entry["figure"]), results.text_of(entry["result"])] for entry in report["figures"]]
    return [
        f"## {chips(report)}, {report['date']}", "", *table(["", ""], facts), "```", *report["topology"], "```", "",
        *table(["Figure", "", "All of it"], figures), f"Tests: {counted(report)}.", "", *table(["Test", "Result", "Seconds", "Measured"], rows),
    ]  # fmt: skip


def main(arguments):
    if len(arguments) != 1 or arguments[0].startswith("-"):
        raise SystemExit(__doc__)
    folder = pathlib.Path(arguments[0])
    report = make(folder)
    (folder / "report.json").write_text(json.dumps(report, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    (folder / "report.md").write_text("\n".join([*overview([report]), *markdown(report)]), encoding="utf-8")
    print(f"{chips(report)}: {counted(report)}; " + ", ".join(f"{name} {value_of(report, name)}" for name in ["B12", *FIGURES]))
    return 0 if all(test["result"] != "failed" for test in report["tests"]) and all(entry["result"] for entry in report["figures"]) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
