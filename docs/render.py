#!/usr/bin/env python3
"""Renders the parts of pages that describe the API, between two marks on each page; the text around the marks is written by hand.

  render.py           writes the pages
  render.py --check   writes nothing, and fails if a page differs

docs/api.md has the fields of every CRD in crds/: one table for each group of fields. docs/reasons.md has the constants of
common/control/reasons.h and exit_codes.h: one table for each section. docs/gpu-reports.md has the reports in docs/gpu-reports/. The CRD of
TrainingProfiles has in spec.workload the fields of a TrainingJob's spec that a profile may set.
"""

import json
import pathlib
import re
import sys
import textwrap

import yaml

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "deploy"))
import gpu_report
BEGIN, END = "<!-- rendered by render.py: begin -->", "<!-- rendered by render.py: end -->"
COPY_BEGIN, COPY_END = (f"# rendered by docs/render.py from ringmaster.dev_trainingjobs.yaml: {word}\n" for word in ("begin", "end"))


def cell(text):
    return " ".join(str(text).split()).replace("|", "\\|")


def code(value):
    return f"`{cell(value if isinstance(value, str) else json.dumps(value))}`"


def table(head, rows):
    lines = [head, ["---"] * len(head), *rows]
    return ["| " + " | ".join(line) + " |" for line in lines] + [""]


def paragraph(text, bullet=""):
    return textwrap.wrap(cell(text), 150, initial_indent=bullet, subsequent_indent=" " * len(bullet), break_on_hyphens=False) + [""]


# --- crds/ringmaster.dev_trainingprofiles.yaml

COPIED = ["imagePullSecrets", "priorityClassName", "worker", "launcher", "mpi", "network", "faultTolerance", "scheduling"]
OF_THE_JOB = {"worker": ["replicas", "minReplicas", "maxReplicas", "gpus", "gpuResource"], "mpi": ["implementation"]}


class NoAliases(yaml.SafeDumper):
    def ignore_aliases(self, data):
        return True


def without_defaults(field):
    """Returns the field without default values, because a profile sets only the fields that are written in it."""
    if not isinstance(field, dict):
        return [without_defaults(item) for item in field] if isinstance(field, list) else field
    return {key: without_defaults(value) for key, value in field.items() if key != "default" or isinstance(value, dict) and "type" in value}


def render_workload():
    crd = yaml.safe_load((ROOT / "crds/ringmaster.dev_trainingjobs.yaml").read_text(encoding="utf-8"))
    of_job = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    fields = {name: without_defaults(of_job[name]) for name in COPIED}
    for name, left_out in OF_THE_JOB.items():
        for field in left_out:
            del fields[name]["properties"][field]
    del fields["worker"]["x-kubernetes-validations"]  # of numbers that are the job's
    text = yaml.dump(fields, Dumper=NoAliases, sort_keys=False, width=110, allow_unicode=True)
    return textwrap.indent(text, " " * 20)


# --- docs/api.md


COPY = "spec.workload"  # of a TrainingProfile: fields that TrainingJob: spec has above
SOURCES = ["spec.checkpoint.volume", "spec.dataCache.from"]  # their fields are those of spec.worker.volumes[]


def type_of(field):
    if field.get("x-kubernetes-int-or-string"):
        return "quantity"
    if field["type"] == "array":
        keys = field.get("x-kubernetes-list-map-keys")
        by = f" by {', '.join(keys)}" if keys else ""
        return f"{'set' if field.get('x-kubernetes-list-type') == 'set' else 'list'} of {plural(field['items'])}{by}"
    if field["type"] == "object" and "additionalProperties" in field and "properties" not in field:
        return f"map of {plural(field['additionalProperties'])}"
    if field.get("format") == "date-time":
        return "time"
    return field["type"]


def plural(field):
    return {"quantity": "quantities"}.get(type_of(field), type_of(field) + "s")


def bounds_of(field):
    """Returns the bounds of the field and, for a list or map, of its values, unless these are objects with named fields."""
    found = []
    if "enum" in field:
        found.append(", ".join(code(word) for word in field["enum"]))
    for least, most, unit in [
        ("minimum", "maximum", ""),
        ("minLength", "maxLength", " characters"),
        ("minItems", "maxItems", " items"),
        ("minProperties", "maxProperties", " keys"),
    ]:
        low, high = field.get(least), field.get(most)
        if low is not None and high is not None:
            found.append(f"{low} to {high}{unit}" if low != high else f"exactly {low}{unit}")
        elif high is not None:
            found.append(f"at most {high}{unit}")
        elif low is not None:
            found.append(f"at least {low}{unit}")
    if "pattern" in field:
        found.append(f"matches {code(field['pattern'])}")
    for each in ("items", "additionalProperties"):
        held = field.get(each)
        if held and "properties" not in held and (inner := bounds_of(held)):
            found.append(f"each: {inner}")
    return "; ".join(found)


def children(field):
    """Returns the separator between the names of the field and a child, and the schema with the children: the field's or its items'."""
    if "properties" in field:
        return ".", field
    if field.get("items", {}).get("properties"):
        return "[].", field["items"]
    return "", {}


def rules_of(path, field):
    """Yields the path and the message of each CEL rule of the field."""
    for rule in field.get("x-kubernetes-validations", []):
        yield path, rule["message"]
    if "items" in field:
        yield from rules_of(path + "[]", field["items"])
    if isinstance(field.get("additionalProperties"), dict):
        yield from rules_of(path + "[NAME]", field["additionalProperties"])


def render_group(path, field, sections, depth):
    """Renders one table of the fields below `path`, named by their paths below it; fields in `sections` have separate tables."""
    rows, rules = [], list(rules_of(path, field))

    def add(prefix, parent):
        for name, child in parent["properties"].items():
            shown = prefix + name
            full = f"{path}.{shown}"
            joint, inside = children(child) if full not in [COPY, *SOURCES] else ("", {})
            about, kind = child.get("description", ""), type_of(child)
            if full in sections:  # the table of this section has the whole description
                about, kind = about.split(". ")[0].rstrip(".") + ".", f"[{kind}](#{anchor(sections[full])})"
            elif full != COPY:
                rules.extend(rules_of(full, child))
            default = "required" if name in parent.get("required", []) else code(child["default"]) if "default" in child else ""
            rows.append([f"`{shown}`", kind, default, bounds_of(child), cell(about)])
            if inside and full not in sections:
                add(shown + joint, inside)

    joint, inside = children(field)
    add("", inside)
    lines = ["#" * depth + f" {sections[path]}", ""]
    if "description" in field:
        lines += paragraph(field["description"])
    lines += table(["Field", "Type", "Default", "Bounds", "Description"], rows)
    if rules:
        lines += ["The API server rejects objects that break these rules:", ""]
        for where, message in rules:
            lines += paragraph(message if where == path else f"`{where}`: {message}", "- ")[:-1]
        lines += [""]
    return lines


def anchor(title):
    return "".join(letter for letter in title.lower().replace(" ", "-") if letter.isalnum() or letter in "-_")


def render_version(kind, version):
    schema = version["schema"]["openAPIV3Schema"]
    lines = [f"## {kind}, {version['name']}", ""] + paragraph(schema.get("description", ""))
    for _, message in rules_of("", schema):
        lines += paragraph(message, "- ")[:-1]
    for part in ("spec", "status"):
        field = schema["properties"].get(part)
        if not field or "properties" not in field:
            continue
        sections = {part: f"{kind}: {part}"}
        for name, child in field["properties"].items():
            if f"{part}.{name}" == COPY:
                continue
            if len(children(child)[1].get("properties", {})) > 1 or "properties" in child:
                sections[f"{part}.{name}"] = f"{kind}: {part}.{name}" + ("[]" if child["type"] == "array" else "")
        lines += [""] if lines[-1] else []
        for path in sections:
            group = field if path == part else field["properties"][path.split(".")[1]]
            lines += render_group(path, group, sections, 3)
    columns = version.get("additionalPrinterColumns", [])
    if columns:
        lines += [f"### {kind}: columns", "", "The columns of `kubectl get`; those marked wide require `-o wide`.", ""]
        lines += table(
            ["Column", "From", "", "Description"],
            [[c["name"], code(c["jsonPath"]), "wide" if c.get("priority") else "", cell(c.get("description", ""))] for c in columns],
        )
    return lines


def refuse_nulls(node, where):
    """A null is an unquoted comma in a description: YAML makes the rest of the text a key without a value."""
    if node is None:
        raise SystemExit(f"render.py: {where} has no value; quote the text that contains a comma")
    if isinstance(node, list):
        node = dict(enumerate(node))
    for key, value in node.items() if isinstance(node, dict) else ():
        refuse_nulls(value, f"{where}: {key}")


def render_api():
    lines = []
    # The CRD of the read-only copies comes last.
    for path in sorted((ROOT / "crds").glob("*.yaml"), key=lambda path: (".dev_local" in path.name, path.name)):
        crd = yaml.safe_load(path.read_text(encoding="utf-8"))["spec"]
        refuse_nulls(crd, path.name)
        for version in crd["versions"]:
            lines += render_version(crd["names"]["kind"], version)
    return lines


# --- docs/reasons.md

HEADERS = ["common/control/reasons.h", "common/control/exit_codes.h"]
CONSTANT = re.compile(r'inline constexpr (?:char k\w+\[\] = "(\w+)"|int k\w+ = (\d+));')


def render_reasons():
    sections = []  # items: [title, text below it, rows]
    comment = []  # the comment lines since the last other line
    title = False  # the comment begins a section
    for line in (line for header in HEADERS for line in (ROOT / header).read_text(encoding="utf-8").splitlines()):
        if line.startswith("// --- "):
            sections.append([line.removeprefix("// --- "), "", []])
            title = True
        elif line.startswith("//"):
            comment.append(line.removeprefix("//").strip())
        elif found := CONSTANT.fullmatch(line):
            if not comment:
                raise SystemExit(f"{line} has no comment")
            sections[-1][2].append([f"`{found[1] or found[2]}`", cell(" ".join(comment))])
            comment = []
        elif "constexpr" in line:
            raise SystemExit(f"cannot read {line}")
        else:
            if title:
                sections[-1][1] = " ".join(comment)
            comment, title = [], False
    lines = []
    for heading, text, rows in sections:
        lines += [f"## {heading}", ""] + (paragraph(text) if text.strip() else [])
        lines += table(["Code" if rows[0][0][1:-1].isdigit() else "Word", "When, and what to do"], rows)
    return lines


# --- docs/gpu-reports.md


def render_gpu_reports():
    """Renders a table of all reports, newest first, and then each report."""
    reports = [gpu_report.read(path) for path in sorted((ROOT / "docs/gpu-reports").glob("*.json"), reverse=True)]
    if not reports:
        return ["No report has come yet.", ""]
    return gpu_report.overview(reports) + [line for report in reports for line in gpu_report.markdown(report)]


# The pages are rendered in this order, because a page may contain what was rendered into an earlier one.
PAGES = {
    "crds/ringmaster.dev_trainingprofiles.yaml": (COPY_BEGIN, render_workload, " " * 20 + COPY_END),
    "docs/api.md": (BEGIN, lambda: "\n".join(["", *render_api()]), END),
    "docs/reasons.md": (BEGIN, lambda: "\n".join(["", *render_reasons()]), END),
    "docs/gpu-reports.md": (BEGIN, lambda: "\n".join(["", *render_gpu_reports()]), END),
}


def main(arguments):
    if arguments not in ([], ["--check"]):
        raise SystemExit(__doc__)
    stale = 0
    for name, (begin, render, end) in PAGES.items():
        page = ROOT / name
        text = page.read_text(encoding="utf-8")
        before, marked = text.split(begin)
        after = marked.split(end)[1]
        wanted = before + begin + render() + end + after
        if wanted == text:
            continue
        if arguments:
            print(f"{name} is out of date: run docs/render.py", file=sys.stderr)
            stale = 1
        else:
            page.write_text(wanted, encoding="utf-8")
    return stale


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
