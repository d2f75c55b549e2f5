#!/usr/bin/env bash
# Tests that every link within the tree names a file and a heading that exist, and that links.py finds broken links.
set -euo pipefail
cd "$(dirname "$0")/../.."
fail() { echo "FAILED: $*" >&2; exit 1; }

found=$(tests/docs/links.py .) || fail "the pages contain broken links"
[ "${found% links}" -ge 200 ] || fail "found only $found"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/docs"
cat >"$work/docs/page.md" <<'M'
# A page: `code`, and more
## Twice
## Twice
M
cat >"$work/README.md" <<'M'
[a page](docs/page.md), [its title](docs/page.md#a-page-code-and-more), [the second](docs/page.md#twice-1), [a folder](docs)
[other hosts](https://example.com/nothing), `[code](nowhere.md)`, [titled](docs/page.md "B1.value")
```
[code](nowhere.md)
```
M
[ "$(tests/docs/links.py "$work")" = "5 links" ] || fail "valid links were rejected: $(tests/docs/links.py "$work" 2>&1)"
refused() { # line problem
  cp "$work/README.md" "$work/kept"
  echo "$1" >>"$work/README.md"
  ! said=$(tests/docs/links.py "$work" 2>&1) || fail "$1 was not rejected"
  grep -F "README.md:6: " <<<"$said" | grep -F "$2" >/dev/null || fail "expected '$2' for $1, got: $said"
  mv "$work/kept" "$work/README.md"
}
refused '[gone](docs/gone.md)' 'there is no docs/gone.md'
refused '[![picture](docs/gone.svg)](docs/page.md)' 'there is no docs/gone.svg'
refused '[gone](docs/page.md#thrice)' 'docs/page.md has no heading #thrice'
refused '[gone](#nothing)' 'README.md has no heading #nothing'
refused '[out](../secret.md)' 'leads out of the tree'
refused '[gone]: docs/gone.md' 'there is no docs/gone.md'
echo "links_test: $found"
