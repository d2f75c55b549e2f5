#!/usr/bin/env python3
"""Merges the files that ranks wrote with --timeline into one trace: merge_timelines.py FOLDER >trace.json, for
chrome://tracing or ui.perfetto.dev"""

import json
import pathlib
import sys

ranks = [json.loads(file.read_text())["traceEvents"] for file in pathlib.Path(sys.argv[1]).glob("*.json")]
ranks.sort(key=lambda events: events[0]["pid"])
# A lost rank and its replacement may have had the same number.
merged = [event | {"pid": number} for number, events in enumerate(ranks) for event in events]
json.dump({"traceEvents": merged}, sys.stdout)
