#!/usr/bin/env python3
"""Refuses broken links in Markdown files: links.py [ROOT].

A link within the tree must name a file or folder that exists, and its anchor must be GitHub's anchor of a heading of that page. Links
to other hosts are not followed.
"""

import pathlib
import re
import subprocess
import sys

LINK = re.compile(r'\]\(<?([^()\s>]*(?:\([^()\s]*\)[^()\s>]*)*)>?(?:\s+"[^"]*")?\)')  # of pictures within links, too
DEFINITION = re.compile(r"^ {0,3}\[[^\]]+\]:\s+<?(\S+?)>?(?:\s|$)")
FENCE = re.compile(r"^\s*(```+|~~~+)")
HEADING = re.compile(r"^ {0,3}(#{1,6})\s+(.*?)(?:\s+#+)?\s*$")
ANCHOR = re.compile(r'<a\s+(?:id|name)="([^"]+)"')


def prose(text):
    """Returns the page's lines with their numbers, without blocks of code."""
    fence = ""
    for number, line in enumerate(text.splitlines(), 1):
        found = FENCE.match(line)
        if found and not fence:
            fence = found[1]
        elif found and found[1].startswith(fence) and line.strip() == found[1]:
            fence = ""
        elif not fence:
            yield number, line


def anchors(text):
    seen, found = {}, set()
    for _, line in prose(text):
        found.update(ANCHOR.findall(line))
        if heading := HEADING.match(line):
            title = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading[2])
            slug = "".join(c for c in title.lower().replace(" ", "-") if c.isalnum() or c in "-_")
            seen[slug] = seen.get(slug, -1) + 1
            found.add(f"{slug}-{seen[slug]}" if seen[slug] else slug)
    return found


def links(text):
    for number, line in prose(text):
        shown = re.sub(r"(`+)(?:(?!\1).)*\1", lambda code: "x" * len(code[0]), line)
        for target in LINK.findall(shown) + DEFINITION.findall(shown):
            yield number, target


def pages(root):
    listed = subprocess.run(["git", "-C", root, "ls-files", "--cached", "--others", "--exclude-standard", "*.md"], capture_output=True, text=True)
    names = listed.stdout.splitlines() if listed.returncode == 0 else [str(path.relative_to(root)) for path in root.glob("**/*.md")]
    return [root / name for name in sorted(names) if not name.startswith(("third_party/", "build/")) and (root / name).is_file()]


def main(root):
    root, bad, checked = pathlib.Path(root).resolve(), 0, 0
    for page in pages(root):
        for number, target in links(page.read_text(encoding="utf-8")):
            if re.match(r"[a-z][a-z0-9+.-]*:", target):
                continue
            checked += 1
            path, _, anchor = target.partition("#")
            to = (page.parent / path).resolve() if path else page
            if not to.is_relative_to(root):
                problem = "leads out of the tree"
            elif not to.exists():
                problem = f"there is no {to.relative_to(root)}"
            elif anchor and to.suffix == ".md" and anchor not in anchors(to.read_text(encoding="utf-8")):
                problem = f"{to.relative_to(root)} has no heading #{anchor}"
            else:
                continue
            print(f"{page.relative_to(root)}:{number}: {target}: {problem}", file=sys.stderr)
            bad = 1
    print(f"{checked} links")
    return bad


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parents[2]))
