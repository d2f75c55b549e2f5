#!/usr/bin/env python3
"""Records the results of the figures in results.jsonl, one line per measurement, and renders pages from the newest lines.

  results.py record [OPTION...]  appends the figure in the last line of standard input, which was measured with these options
  results.py render              writes the tables of RESULTS.md and the numbers that pages take from figures
  results.py check               writes nothing, and fails if a page is not up to date

A page names the origin of a number in the title of a link to RESULTS.md: [54 ms](bench/RESULTS.md "B6.rank_ms").
Other forms: "B6.value*1000" has a factor, "B13.resnet18.over_peer" names a nested value. Rendering keeps the number of decimals and
the text around the number. The number is from the figure's newest line without options. If no such line exists, the number must be
in the earlier results of RESULTS.md.

RINGMASTER_RESULTS names another file to use instead of results.jsonl.
"""

import datetime
import json
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
LINES = pathlib.Path(os.environ.get("RINGMASTER_RESULTS") or ROOT / "bench/results.jsonl")
RESULTS = ROOT / "bench/RESULTS.md"
BEGIN, END = "<!-- rendered from results.jsonl: begin -->", "<!-- rendered from results.jsonl: end -->"
EARLIER = "<!-- earlier results -->"
MARK = re.compile(r'\[([^\]]*)\]\(([\w./]*RESULTS\.md) "([\w-]+)\.([\w.-]+)(?:\*([\d.]+))?"\)')
NUMBER = re.compile(r"[-+]?\d[\d,]*(?:\.\d+)?")
SHOWN = {"figure", "value", "unit", "reference", "reference_is", "goal", "holds"}


def git(*arguments):
    ran = subprocess.run(["git", "-C", ROOT, *arguments], capture_output=True, text=True)
    return ran.stdout.strip() if ran.returncode == 0 else ""


def commit():
    changes = git("status", "--porcelain", "--", ".", ":!bench/results.jsonl", ":!*.md")
    return (git("rev-parse", "--short=10", "HEAD") or "unknown") + (" and changes" if changes else "")


def machine():
    def first(path, pattern):
        found = re.search(pattern, pathlib.Path(path).read_text(), re.MULTILINE)
        return found[1].strip() if found else "?"

    memory = int(first("/proc/meminfo", r"^MemTotal: +(\d+)")) / 2**20
    system = first("/etc/os-release", r'^PRETTY_NAME="([^"(]*)')
    return f"{len(os.sched_getaffinity(0))} cores ({first('/proc/cpuinfo', r'^model name.*: (.*)')}), {memory:.0f} GiB, {system}"


def record(options):
    last = (sys.stdin.read().strip().splitlines() or [""])[-1]
    try:
        figure = json.loads(last)
        name = figure["figure"]
    except (ValueError, TypeError, KeyError):
        raise SystemExit(f"results.py: the last line is not a figure's JSON object: {last[:200]}") from None
    line = {
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "commit": commit(),
        "machine": machine(),
        "load_before": float(os.environ.get("LOAD_BEFORE") or os.getloadavg()[0]),
        "options": options,
        "result": figure,
    }
    with open(LINES, "a") as file:
        file.write(json.dumps(line, ensure_ascii=False) + "\n")
    print(f"{name}: recorded in {LINES}", file=sys.stderr)


def read_lines():
    lines = []
    for number, text in enumerate(LINES.read_text().splitlines() if LINES.exists() else [], 1):
        try:
            line = json.loads(text)
            missing = {"date", "commit", "machine", "options", "result"} - line.keys()
            if missing or "figure" not in line["result"]:
                raise ValueError(f"lacks {sorted(missing) or 'the name of its figure'}")
        except ValueError as error:
            raise SystemExit(f"results.py: line {number} of {LINES}: {error}") from None
        lines.append(line)
    return lines


def newest(lines):
    """Returns the newest line of each figure, by name, or the newest line without options if there is one."""
    chosen = {}
    for line in lines:
        name = line["result"]["figure"]
        if not line["options"] or name not in chosen or chosen[name]["options"]:
            chosen[name] = line
    return chosen


def text_of(value):
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: "–"}[value]
    if isinstance(value, (int, float)):
        if isinstance(value, int) or abs(value) >= 1000:
            return f"{value:,.0f}"
        return f"{value:.3g}" if abs(value) < 100 else f"{value:.0f}"
    if isinstance(value, dict):
        parts = {key: f"({text_of(part)})" if isinstance(part, dict) else text_of(part) for key, part in value.items()}
        return ", ".join(f"{key} {text}" for key, text in parts.items())
    if isinstance(value, list):
        return "; ".join(text_of(part) for part in value)
    return str(value).replace("|", "\\|").replace("\n", " ")


def in_order(name):
    return (0, int(name[1:]), name) if re.fullmatch(r"B\d+", name) else (1, 0, name)


def table(chosen):
    rows = ["| Figure | Value | Reference | Goal | Holds | Beside it | Measured |", "|---|---|---|---|---|---|---|"]
    machines = []
    for name in sorted(chosen, key=in_order):
        line, figure = chosen[name], chosen[name]["result"]
        if line["machine"] not in machines:
            machines.append(line["machine"])
        reference = text_of(figure.get("reference"))
        if figure.get("reference_is"):
            reference += f" ({text_of(figure['reference_is'])})"
        beside = "; ".join(f"{key} {text_of(value)}" for key, value in figure.items() if key not in SHOWN)
        measured = f"{line['date'][:10]}, {line['commit']}, {machines.index(line['machine']) + 1}, load {line.get('load_before', '?')}"
        if line["options"]:
            measured += ", with " + text_of(" ".join(line["options"]))
        value = f"{text_of(figure.get('value'))} {text_of(figure.get('unit', ''))}".rstrip()
        cells = [name, value, reference, text_of(figure.get("goal")), text_of(figure.get("holds")), beside, measured]
        rows.append("| " + " | ".join(cells) + " |")
    if not chosen:
        return "No figure has been recorded yet."
    listed = "\n".join(f"{index}. {text_of(described)}" for index, described in enumerate(machines, 1))
    return "\n".join(rows) + "\n\nMeasured: day, commit, machine of this list, load of the machine before.\n\n" + listed


def with_table(page, chosen):
    """Returns the text of RESULTS.md with the rendered table, without earlier results of figures that now have a line."""
    head, rest = page.split(BEGIN)
    middle, tail = rest.split(END)[1].split(EARLIER)
    measured = {name for name, line in chosen.items() if not line["options"]}
    kept = [row for row in tail.splitlines() if not (row.startswith("| ") and row.split(" | ")[2:3] and row.split(" | ")[2] in measured)]
    return f"{head}{BEGIN}\n{table(chosen)}\n{END}{middle}{EARLIER}" + "\n".join(kept) + "\n"


def earlier_rows():
    rows = {}
    for row in RESULTS.read_text().split(EARLIER)[1].splitlines():
        cells = row.split(" | ")
        if row.startswith("| ") and len(cells) > 4:
            rows[cells[2]] = cells[3]
    return rows


def formatted(written, value):
    decimals = len(written.partition(".")[2])
    return f"{value:{'+' if written.startswith('+') else ''}{',' if ',' in written else ''}.{decimals}f}"


def with_numbers(path, page, chosen, earlier):
    def number(mark):
        text, target, name, key, factor = mark.groups()
        written = NUMBER.search(text)
        where = f"{path.relative_to(ROOT)}: [{text}] takes {name}.{key}"
        if not written:
            raise SystemExit(f"results.py: {where}, and has no number")
        line = chosen.get(name)
        if line is None or line["options"]:
            if written[0] not in NUMBER.findall(earlier.get(name, "")):
                raise SystemExit(f"results.py: {where}, but {LINES.name} has no line of {name} without options, and its earlier result no {written[0]}")
            return mark[0]
        value = line["result"]
        for part in key.split("."):
            value = value.get(part) if isinstance(value, dict) else None
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise SystemExit(f"results.py: {where}, and the line of {line['date']} has no such number: {json.dumps(line['result'])}")
        value *= float(factor or 1)
        return f'{mark[0][:1]}{text[:written.start()]}{formatted(written[0], value)}{text[written.end():]}{mark[0][1 + len(text):]}'

    return MARK.sub(number, page)


def pages():
    """Yields the path, the current text and the expected text of each page that shows numbers of figures."""
    chosen, earlier = newest(read_lines()), earlier_rows()
    named = git("ls-files", "*.md").splitlines() or [str(path.relative_to(ROOT)) for path in ROOT.glob("**/*.md")]
    for path in (ROOT / name for name in named):
        page = path.read_text()
        wanted = with_table(page, chosen) if path == RESULTS else page
        yield path, page, with_numbers(path, wanted, chosen, earlier)


def main():
    command, *options = sys.argv[1:] or ["help"]
    if command == "record":
        record(options)
    elif command == "render" and not options:
        for path, page, wanted in pages():
            if page != wanted:
                path.write_text(wanted)
                print(f"rendered {path.relative_to(ROOT)}", file=sys.stderr)
    elif command == "check" and not options:
        differing = [str(path.relative_to(ROOT)) for path, page, wanted in pages() if page != wanted]
        if differing:
            raise SystemExit(f"results.py: not what bench/results.jsonl says (bench/results.py render writes it): {' '.join(differing)}")
    else:
        raise SystemExit(__doc__)


if __name__ == "__main__":
    main()
