#!/usr/bin/env python3
"""Refuses long lines in Markdown: markdown.py LIMIT FILE...

Skips rows of tables, blocks of code, targets of links, and text that a script renders between two marks.
"""

import re
import sys

limit, bad = int(sys.argv[1]), 0
for path in sys.argv[2:]:
    code = rendered = False
    with open(path, encoding="utf-8") as page:
        for number, line in enumerate(page, 1):
            line = line.rstrip("\n")
            if line.lstrip().startswith(("```", "~~~")):
                code = not code
            elif line.startswith("<!-- rendered ") and line.endswith(" -->"):
                rendered = line.endswith("begin -->")
            elif not code and not rendered and not line.lstrip().startswith("|"):
                length = len(re.sub(r"\]\([^)]*\)", "]", line))
                if length > limit:
                    print(f"{path}:{number}: {length} characters, at most {limit} are allowed: break the line")
                    bad = 1
sys.exit(bad)
