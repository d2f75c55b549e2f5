#!/usr/bin/env python3
"""Renders the flags on docs/ringmaster-train.md from the output of `ringmaster-train --help`.

  render_train.py PROGRAM           writes the page; PROGRAM is a ringmaster-train, for example build/dev/worker/trainer/ringmaster-train
  render_train.py PROGRAM --check   writes nothing, and fails if the page differs
"""

import os
import pathlib
import re
import subprocess
import sys

PAGE = pathlib.Path(__file__).resolve().parent / "ringmaster-train.md"
BEGIN, END = "<!-- rendered by render_train.py: begin -->", "<!-- rendered by render_train.py: end -->"
OPTION = re.compile(r"  (?P<names>-[-\w,]+)(?P<rest>.*)")
KIND = re.compile(r"^ (?:TEXT|INT|UINT|FLOAT)(?::(?:\{(?P<words>[^}]*)\}|(?:INT|FLOAT) in \[(?P<low>\S+) - (?P<high>[^\]]+)\]))?(?:=(?P<default>\S+))?")


def help_of(program):
    environment = {key: value for key, value in os.environ.items() if not key.startswith("RINGMASTER_")}
    return subprocess.run([program, "--help"], capture_output=True, text=True, check=True, env=environment).stdout


def read_help(text):
    """Returns the groups of options as (title, [option]); an option has names, bounds, a default and a description."""
    groups = []
    for line in text.splitlines():
        if re.fullmatch(r"\S.*:", line):
            groups.append((line[:-1], []))
        elif groups and (found := OPTION.fullmatch(line)):
            groups[-1][1].append(read_option(found["names"], found["rest"]))
        elif groups and groups[-1][1] and line.strip():
            option = groups[-1][1][-1]
            option["about"] = f"{option['about']} {line.strip()}".strip()
    return groups


def read_option(names, rest):
    option = {"names": names.split(","), "values": "", "default": "", "notes": [], "about": ""}
    if kind := KIND.match(rest):
        rest = rest[kind.end():]
        option["default"] = kind["default"] or ""
        option["values"] = ", ".join(f"`{word}`" for word in kind["words"].split(",")) if kind["words"] else ""
        if kind["low"]:
            option["values"] = f"{kind['low']} to {kind['high']}"
    if found := re.match(r" \(Env:(\w+)\)", rest):
        option["notes"].append(f"Also `{found[1]}`.")
        rest = rest[found.end():]
    if found := re.match(r" Excludes: (--[-\w]+)", rest):
        option["notes"].append(f"Not with `{found[1]}`.")
        rest = rest[found.end():]
    option["about"] = rest.strip()
    return option


def sentence(option):
    text = option["about"]
    if not option["default"] or not text.startswith(option["default"]):  # a value stays as it is written
        text = text[:1].upper() + text[1:]
    return text if text.endswith((".", ")")) else text + "."


def render(text):
    lines = [""]
    for title, options in read_help(text):
        if not options:
            continue
        title = "Flags" if title == "Options" else title
        lines += [f"## {title}", "", "| Flag | Values | Default | Description |", "|---|---|---|---|"]
        for option in options:
            names = ", ".join(f"`{name}`" for name in option["names"])
            default = f"`{option['default']}`" if option["default"] else ""
            about = " ".join([sentence(option), *option["notes"]]).replace("|", "\\|")
            lines.append(f"| {names} | {option['values']} | {default} | {about} |")
        lines.append("")
    if len(lines) < 30:
        raise SystemExit(f"cannot read the program's help: {text}")
    return "\n".join(lines)


def main(arguments):
    if not arguments or arguments[1:] not in ([], ["--check"]):
        raise SystemExit(__doc__)
    said = help_of(arguments[0])
    text = PAGE.read_text(encoding="utf-8")
    before, marked = text.split(BEGIN)
    wanted = before + BEGIN + render(said) + END + marked.split(END)[1]
    # Nothing of the help is lost on the way, however it is laid out.
    flags = set(re.findall(r"^  (?:-\w,)?(--[-\w]+)", said, re.MULTILINE))
    shown = set(re.findall(r"^\| (?:`-\w`, )?`(--[-\w]+)`", wanted, re.MULTILINE))
    if flags != shown:
        raise SystemExit(f"flags of the help and of the page differ: {sorted(flags ^ shown)}")
    if wanted == text:
        return 0
    if len(arguments) > 1:
        print(f"docs/ringmaster-train.md is out of date: run docs/render_train.py {arguments[0]}", file=sys.stderr)
        return 1
    PAGE.write_text(wanted, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
