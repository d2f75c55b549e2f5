#!/usr/bin/env bash
# Runs checks so that a reviewer does not have to do them; README.md here describes each check.
#
#   run.sh changed [CHECK...]    files that differ from where this branch left main; LINT_BASE names another commit
#   run.sh all [CHECK...]        every file
#
# Checks: format shell python gofmt markdown words length arrows headers vet tidy. Without names, all checks run, except tidy
# in `run.sh all`: clang-tidy takes hours for the tree.
set -euo pipefail
cd "$(dirname "$0")/../.."
export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1
jobs=${LINT_JOBS:-$(nproc)}
export LINT_JOBS=$jobs

base_of() { # prints the commit that this tree is compared with
  local branch
  [ -z "${LINT_BASE:-}" ] || { echo "$LINT_BASE" && return; }
  for branch in origin/main main; do
    git merge-base HEAD "$branch" 2>/dev/null && return
  done
  echo "run.sh: there is neither origin/main nor main: name a commit in LINT_BASE" >&2
  return 1
}

list_files() { # scope
  if [ "$1" = changed ]; then
    git diff --name-only --diff-filter=d "$base"
    git ls-files --others --exclude-standard
  else
    # In a tree without git, or one that belongs to another user, list all files.
    git ls-files --cached --others --exclude-standard 2>/dev/null || find . \( -name build -o -name .git \) -prune -o -type f -printf '%P\n'
  fi
}

matching() { # expression: sets `chosen`
  mapfile -t chosen < <(grep -E "$1" <<<"$files" || true)
  [ ${#chosen[@]} -gt 0 ]
}

check_format() {
  matching '\.(cc|cu|cuh|h)$' || return 0
  clang-format --dry-run -Werror "${chosen[@]}"
}

check_shell() {
  mapfile -t chosen < <(while read -r file; do
    case $file in
      *.sh) echo "$file" ;;
      *.*) ;;
      *) ! head -n 1 "$file" | grep -aE '^#!.*\b(ba|da)?sh\b' >/dev/null || echo "$file" ;;
    esac
  done <<<"$files")
  [ ${#chosen[@]} -eq 0 ] || shellcheck "${chosen[@]}"
}

check_python() {
  matching '\.py$' || return 0
  pyflakes3 "${chosen[@]}"
}

check_gofmt() {
  matching '\.go$' || return 0
  local unformatted
  unformatted=$(gofmt -l "${chosen[@]}") || return
  [ -z "$unformatted" ] || { gofmt -d "${chosen[@]}" && return 1; }
}

# Skips folders with only a tools.go, which lists programs of other projects.
check_vet() {
  matching '\.go$' || return 0
  local folder failed=0
  while read -r folder; do
    (cd "$folder" && go vet .) || failed=1
  done < <(printf '%s\n' "${chosen[@]}" | grep -v '/tools\.go$' | xargs -r -n 1 dirname | sort -u)
  return "$failed"
}

check_markdown() {
  matching '\.md$' || return 0
  tests/lint/markdown.py 120 "${chosen[@]}"
}

# Skips docs/, files that are rendered from checked files, and files that contain the list of wordings.
check_words() {
  matching '\.(cc|cu|cuh|h|c|sh|py|md|yaml)$' || return 0
  mapfile -t chosen < <(printf '%s\n' "${chosen[@]}" | grep -vE '^(docs|tests/lint|tests/data|charts/ringmaster/files)/|^deploy/install.yaml$')
  [ ${#chosen[@]} -eq 0 ] || tests/lint/words.py "${chosen[@]}"
}

check_length() {
  matching '\.(cc|cu|cuh|h|c|sh|py|go)$' || return 0
  local file lines failed=0
  for file in "${chosen[@]}"; do
    [[ $file != tests/* ]] || continue
    lines=$(wc -l <"$file")
    [ "$lines" -le 400 ] || { echo "$file: $lines lines" && failed=1; }
  done
  return "$failed"
}

check_arrows() { tests/lint/arrows.py; }

configure() {
  cmake --preset lint >build/lint.log 2>&1 || { cat build/lint.log && return 1; }
}

check_headers() {
  matching '\.h$' || return 0
  configure && tests/lint/headers.py "${chosen[@]}"
}

# For a header, clang-tidy uses the flags of the source with the most similar name.
check_tidy() {
  matching '^(common|include|operator|cli|worker|tests|bench)/.*\.(cc|h)$' || return 0
  configure || return
  local built
  mapfile -t built < <(tests/lint/headers.py --built "${chosen[@]}")
  [ ${#built[@]} -eq 0 ] || printf '%s\0' "${built[@]}" | xargs -0 -n 1 -P "$jobs" clang-tidy -p build/lint --quiet
}

scope=${1:-}
[ "$scope" = changed ] || [ "$scope" = all ] || { sed -n '2,/^set/s/^# \?//p' "$0" >&2 && exit 2; }
shift
checks=("$@")
if [ $# -eq 0 ]; then
  checks=(format shell python gofmt markdown words length arrows headers vet)
  [ "$scope" = all ] || checks+=(tidy)
fi
if [ "$scope" = changed ]; then base=$(base_of); else base=$(base_of 2>/dev/null) || base=; fi
files=$(list_files "$scope" | sed '\#^third_party/#d' | sort -u | while read -r file; do [ ! -f "$file" ] || echo "$file"; done)
mkdir -p build

failed=()
for check in "${checks[@]}"; do
  declare -F "check_$check" >/dev/null || { echo "run.sh: unknown check '$check'" >&2 && exit 2; }
  begun=$SECONDS
  "check_$check" && code=0 || code=$?
  if [ "$code" = 0 ]; then
    echo "$check: ok, $((SECONDS - begun)) s"
  else
    echo "$check: FAILED, $((SECONDS - begun)) s"
    failed+=("$check")
  fi
done
[ ${#failed[@]} -eq 0 ] || { echo "failed: ${failed[*]}" >&2 && exit 1; }
