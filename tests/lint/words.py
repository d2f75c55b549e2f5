#!/usr/bin/env python3
"""Refuses wordings that are hard to understand, in comments, string literals and Markdown: words.py FILE..."""

import re
import sys

# The refused wordings, and what to write instead. A rule may be case-sensitive.
RULES = [
    (r"(?<!here )\b(?:is|are|was|were) no (?!(?:long|more|less|larg|small|bett|wors|high|low)(?:er|s|e|r)?\b|other|such\b|one\b)(?=[a-z]+\b)",
     'write "is not a" or "are not"'),
    (r"\bthere shall be\b", "name the number: \"number of workers\""),
    (r"\banew\b", 'write "again"'),
    (r"\b[Ww]ho(?:m)?ever\b", "name the process, user or client"),
    (r"\b(?:do|does|did) not come to (?:be |connect|run|start)", 'write "cannot"'),
    (r"(?:^|[.:] )Of (?:a|an|the) ", "begin with the subject, or with \"For\""),
]
# String literals of programs are for users.
LITERAL_RULES = [
    (r"\b(?:nobody|everybody|somebody)\b", "name the process, user or client"),
    (r"\b(?:goes|going) on\b", 'write "continues"'),
    (r"\bPassed over\b", 'write "Skipped"'),
    (r"\bCould not\b", 'write "Failed to"'),
]
COMMENT = re.compile(r"^\s*(?://|#)\s*|\s(?://|#) ")
LITERAL = re.compile(r'"((?:[^"\\\n]|\\.)*)"')


def findings(path, text):
    """Yields (line number, what was found, advice)."""
    code = path.endswith((".cc", ".h", ".cu", ".cuh", ".c"))
    product = code and not path.startswith(("tests/", "bench/"))
    for number, line in enumerate(text.split("\n"), 1):
        words = COMMENT.split(line, maxsplit=1)[-1] if not path.endswith(".md") else re.sub(r"`[^`]*`", "", line.lstrip("-*#>| "))
        for rule, advice in RULES:
            found = re.search(rule, words)
            if found:
                yield number, found.group(0).strip(), advice
        for literal in LITERAL.findall(line) if product and not line.lstrip().startswith("//") else []:
            for rule, advice in LITERAL_RULES:
                found = re.search(rule, literal)
                if found:
                    yield number, found.group(0), advice


def main():
    failed = False
    for path in sys.argv[1:]:
        with open(path, encoding="utf-8") as file:
            for number, found, advice in findings(path, file.read()):
                print(f'{path}:{number}: "{found}": {advice}')
                failed = True
    sys.exit(failed)


main()
