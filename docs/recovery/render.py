#!/usr/bin/env python3
"""Renders docs/recovery.svg, the picture of the README, from the recorded run in run.json beside it.

  render.py                             writes docs/recovery.svg
  render.py --check                     writes nothing, and fails if the picture differs
  render.py --record LOG MARKS FROM TO  prints run.json, from a launcher's log with time stamps; record.sh calls it, and describes how to record a new run

run.json has these lists, with times in milliseconds from the start of the picture: `steps` (when each step was reported), `worlds`
(how many ranks trained together, and from when on) and `marks` (what was done to the job, and when).
"""

import datetime
import json
import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
PICTURE = HERE.parent / "recovery.svg"
BIN = 1000  # milliseconds of a bar
WIDTH, LEFT, RIGHT = 880, 62, 16
TOP, RATE_HEIGHT, GAP, WORLD_HEIGHT, BOTTOM = 66, 150, 34, 70, 34
# These colours are readable on white and on black.
INK, GRID, RATE, WORLD, MARK = "#7d8590", "#7d859055", "#2f81f7", "#3fb950", "#db6d28"


def seconds_of(stamp):
    whole, fraction = re.fullmatch(r"(.*?)\.(\d+)(?:Z|\+00:00)", stamp).groups()
    return datetime.datetime.fromisoformat(whole + "+00:00").timestamp() + float("0." + fraction)


def record(log, marks, begin, end):
    begin, end = float(begin), float(end)
    steps, worlds = [], []
    for line in pathlib.Path(log).read_text(encoding="utf-8").splitlines():
        stamp, _, rest = line.partition(" ")
        found = re.search(r'\{"step":.*\}', rest)
        at = seconds_of(stamp)
        if not found or not begin <= at <= end:
            continue
        size = json.loads(found[0])["world_size"]
        millis = round(1000 * (at - begin))
        steps.append(millis)
        if not worlds or worlds[-1][1] != size:
            worlds.append([millis if worlds else 0, size])
    commit = subprocess.run(["git", "-C", HERE, "rev-parse", "--short=10", "HEAD"], capture_output=True, text=True).stdout.strip()
    run = {
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d"),
        "commit": commit,
        "length": round(1000 * (end - begin)),
        "marks": [[round(1000 * (mark["at"] - begin)), mark["what"]] for mark in json.loads(pathlib.Path(marks).read_text(encoding="utf-8"))],
        "worlds": worlds,
        "steps": steps,
    }
    print(json.dumps(run))


def longest_gap(steps, begin, end):
    """Returns the longest time between two consecutive steps of which the later one is within these times."""
    return max((later - step for step, later in zip(steps, steps[1:]) if begin <= later <= end), default=0)


def text(x, y, words, size=12, anchor="start", colour=INK, weight="normal"):
    return f'<text x="{x:.0f}" y="{y:.0f}" font-size="{size}" text-anchor="{anchor}" fill="{colour}" font-weight="{weight}">{words}</text>'


def line(x1, y1, x2, y2, colour, width=1.0, dash=""):
    dashes = f' stroke-dasharray="{dash}"' if dash else ""
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}" stroke-width="{width}"{dashes}/>'


def round_up(value):
    """Returns the value, rounded up to a number that is suitable for an axis."""
    scale = 10 ** len(str(int(value))[1:])
    return next(step * scale for step in (1, 1.2, 1.6, 2, 3, 4, 6, 8, 10) if step * scale >= value)


def render(run):
    steps, length = run["steps"], run["length"]
    plot = WIDTH - LEFT - RIGHT
    bottom = TOP + RATE_HEIGHT
    world_top, world_bottom = bottom + GAP, bottom + GAP + WORLD_HEIGHT

    def x(millis):
        return LEFT + plot * millis / length

    bins = [0] * (length // BIN)
    for step in steps:
        if step // BIN < len(bins):
            bins[step // BIN] += 1
    rates = [count * 1000 / BIN for count in bins]
    most = int(round_up(max(rates)))
    out = [text(LEFT, TOP - 50, "Steps per second", 13, weight="600")]
    for part in range(3):
        y, value = bottom - RATE_HEIGHT * part / 2, most * part // 2
        out += [line(LEFT, y, WIDTH - RIGHT, y, GRID), text(LEFT - 8, y + 4, value, anchor="end")]
    for index, rate in enumerate(rates):
        height = RATE_HEIGHT * rate / most
        out.append(f'<rect x="{x(index * BIN) + 0.5:.1f}" y="{bottom - height:.1f}" width="{plot * BIN / length - 1:.1f}" height="{height:.1f}" fill="{RATE}"/>')

    out.append(text(LEFT, world_top - 10, "Workers that train", 13, weight="600"))
    largest = max(size for _, size in run["worlds"])
    for size in range(largest + 1):
        y = world_bottom - WORLD_HEIGHT * size / largest
        out += [line(LEFT, y, WIDTH - RIGHT, y, GRID), text(LEFT - 8, y + 4, size, anchor="end")]
    ends = [begin for begin, _ in run["worlds"][1:]] + [length]
    path = []
    for (begin, size), end in zip(run["worlds"], ends):
        y = world_bottom - WORLD_HEIGHT * size / largest
        path += [f"{x(begin):.1f},{y:.1f}", f"{x(end):.1f},{y:.1f}"]
    out.append(f'<polyline points="{" ".join(path)}" fill="none" stroke="{WORLD}" stroke-width="3" stroke-linejoin="round"/>')

    marks = run["marks"]
    for index, (at, what) in enumerate(marks):
        until = marks[index + 1][0] if index + 1 < len(marks) else length
        gap = longest_gap(steps, at, until)
        shown = f"{gap} ms" if gap < 1000 else f"{gap / 1000:.1f} s"
        out += [line(x(at), TOP - 36, x(at), world_bottom, MARK, 1.5, "4 3")]
        out += [text(x(at) + 5, TOP - 26, what, 12, colour=MARK), text(x(at) + 5, TOP - 11, f"gap of {shown}", 12, colour=MARK)]
    for second in range(0, length // 1000 + 1, 10):
        out.append(text(x(1000 * second), world_bottom + 18, f"{second} s", anchor="middle"))
    height = world_bottom + BOTTOM
    title = "Steps per second and workers over time. " + "; ".join(f"{what} at {at / 1000:.0f} s" for at, what in marks)
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="system-ui, sans-serif" role="img"><title>{title}</title>'
    return "\n".join([head, *out, "</svg>", ""])


def main(arguments):
    if arguments[:1] == ["--record"] and len(arguments) == 5:
        record(*arguments[1:])
        return 0
    if arguments not in ([], ["--check"]):
        raise SystemExit(__doc__)
    picture = render(json.loads((HERE / "run.json").read_text(encoding="utf-8")))
    if not arguments:
        PICTURE.write_text(picture, encoding="utf-8")
    elif picture != PICTURE.read_text(encoding="utf-8"):
        print("docs/recovery.svg is out of date: run docs/recovery/render.py", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
