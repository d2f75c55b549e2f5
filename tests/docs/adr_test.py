#!/usr/bin/env python3
"""Checks docs/adr: each record's form, that the index lists each record once with its title, and that every "ADR N" in the tree exists.

  adr_test.py [ROOT]    ROOT is the tree to check; by default the tree that contains this file
"""

import datetime
import os
import pathlib
import re
import sys

ROOT = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parents[2])
FOLDER = ROOT / "docs" / "adr"
HEADINGS = ["Context", "Decision", "Consequences"]
MOST_WORDS = 200
SKIPPED = {"build", "third_party"}
problems = []


def check_record(path, numbers):
    """Returns the record's title."""
    text = path.read_text(encoding="utf-8")
    number = int(path.name[:4])
    title = re.match(rf"# {number}\. (.+)\n", text)
    if not title:
        problems.append(f"{path.name}: the first line is not '# {number}. TITLE'")
    status = re.search(r"^- Status: (?:accepted|superseded by (\d{4}))$", text, re.M)
    if not status:
        problems.append(f"{path.name}: no line '- Status: accepted' or '- Status: superseded by NNNN'")
    elif status[1] and int(status[1]) not in numbers:
        problems.append(f"{path.name}: superseded by {status[1]}, which does not exist")
    try:
        datetime.date.fromisoformat(re.search(r"^- Date: (\S+)$", text, re.M)[1])
    except (TypeError, ValueError):
        problems.append(f"{path.name}: no line '- Date: YYYY-MM-DD'")
    if re.findall(r"^## (.+)$", text, re.M) != HEADINGS:
        problems.append(f"{path.name}: its headings are not {', '.join(HEADINGS)}")
    words = sum(1 for word in text.split() if re.search(r"\w", word))
    if words > MOST_WORDS:
        problems.append(f"{path.name}: {words} words, at most {MOST_WORDS} are allowed: split the decision")
    for link in re.findall(r"\]\(([^)#]+)[^)]*\)", text):
        if not link.startswith("https://") and not (FOLDER / link).exists():
            problems.append(f"{path.name}: links to {link}, which does not exist")
    return title[1] if title else None


def check_index(titles):
    index = (FOLDER / "README.md").read_text(encoding="utf-8")
    listed = re.findall(r"^- \[(\d+)\. (.+)\]\((\S+)\)$", index, re.M)
    names = [name for _, _, name in listed]
    for name, title in titles.items():
        if names.count(name) != 1:
            problems.append(f"README.md: lists {name} {names.count(name)} times")
        if title and name in names and (str(int(name[:4])), title, name) not in listed:
            problems.append(f"README.md: {name} is not listed as '{int(name[:4])}. {title}'")
    problems.extend(f"README.md: lists {name}, which does not exist" for name in names if name not in titles)


def check_references(numbers):
    for folder, folders, files in os.walk(ROOT):
        folders[:] = [name for name in folders if name not in SKIPPED and (not name.startswith(".") or name == ".github")]
        for name in files:
            if not name.endswith((".md", ".h", ".cc", ".cu", ".py", ".sh", ".yaml", ".yml", ".go", ".txt")):
                continue
            path = os.path.join(folder, name)
            with open(path, "rb") as file:
                found = re.findall(rb"\bADR (\d+)", file.read())
            problems.extend(f"{os.path.relpath(path, ROOT)}: there is no ADR {int(number)}" for number in found if int(number) not in numbers)


records = sorted(FOLDER.glob("[0-9]*.md"))
known = {int(path.name[:4]) for path in records}
if len(known) != len(records) or not records:
    problems.append(f"{len(records)} records have {len(known)} numbers")
check_index({path.name: check_record(path, known) for path in records})
check_references(known)
print("\n".join(problems) or f"{len(records)} records")
sys.exit(1 if problems else 0)
