# shellcheck shell=bash

# Sourced by run.sh: functions that run a step, run the tests of a build tree as one step, and print the last line.
reports=$(mktemp -d)
started=$SECONDS
failed_steps=()
declare -A report_of=()  # report file by the title of a step that ran tests

step() { # what command...: runs the command, prints how long it took, and records a failure
  local title=$1 begin=$SECONDS
  shift
  echo "=== [$((SECONDS - started)) s] $title"
  [ "$1" != run_tests ] || report_of[$title]=$reports/$3.xml
  if "$@"; then
    echo "=== $title took $((SECONDS - begin)) s"
  else
    echo "=== $title FAILED after $((SECONDS - begin)) s"
    failed_steps+=("$title")
    return 1
  fi
}

run_tests() { # preset report-name ctest-arguments...
  local preset=$1 report=$reports/$2.xml
  shift 2
  # The end of a program's output has the counts, so the report keeps the end of a long output.
  ctest --test-dir "build/$preset" --output-on-failure --no-tests=error --output-junit "$report" --test-output-truncation head "$@"
}

# A failed step counts as one failure, unless some of its tests are counted as failed.
summary() {
  local passed=0 failed=0 skipped=0 title counted
  read -r passed failed skipped <<<"$(python3 tests/count.py "$reports"/*.xml)"
  for title in "${failed_steps[@]}"; do
    echo "failed step: $title"
    counted=0
    [ ! -e "${report_of[$title]:-}" ] || read -r _ counted _ <<<"$(python3 tests/count.py "${report_of[$title]}")"
    [ "$counted" -gt 0 ] || failed=$((failed + 1))
  done
  python3 tests/failures.py "$reports"/*.xml
  echo "everything took $((SECONDS - started)) s"
  echo "$passed passed, $failed failed, $skipped skipped"
  [ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
}
