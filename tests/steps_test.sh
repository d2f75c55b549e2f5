#!/usr/bin/env bash
# Tests the last line of run.sh: it counts test cases, and each failure once.
set -euo pipefail
cd "$(dirname "$0")/.."
tree=$PWD
fail() { echo "FAILED: $*" >&2; exit 1; }
work=$(mktemp -d)
trap 'rm -rf "$work" "${reports:-}"' EXIT
mkdir -p "$work/build/dev"
ln -s "$tree/tests" "$work/tests"
cd "$work"
cat >program <<'P'
#!/bin/sh
# Prints the end of a GoogleTest program's output: program PASSED FAILED SKIPPED CODE
head -c 5000 /dev/zero | tr '\0' '.'; echo
[ "$2" = 0 ] || printf 'error: expected by the test\nsome.cc:7: Failure\nValue of: sum\n[  FAILED  ] Suite.Case (0 ms)\n'
echo "[==========] $(($1 + $2 + $3)) tests from 2 test suites ran. (4 ms total)"
echo "[  PASSED  ] $1 tests."
[ "$3" = 0 ] || echo "[  SKIPPED ] $3 tests."
exit $4
P
cat >shell_test <<'P'
#!/bin/sh
echo 'the beginning went on'
echo 'FAILED: the cut node: not told'
seq 100
exit 1
P
chmod +x program shell_test
cat >test_some.py <<'P'
import unittest
class Some(unittest.TestCase):
    def test_fine(self): pass
    def test_also_fine(self): pass
    @unittest.skip("here")
    def test_skipped(self): pass
class Broken(unittest.TestCase):
    def test_fine(self): pass
    def test_failure(self): self.fail()
    def test_error(self): raise KeyError
P
cat >build/dev/CTestTestfile.cmake <<C
add_test(unit "$work/program" 12 0 2 0)
add_test(script true)
add_test(python python3 -m unittest test_some.Some)
add_test(broken_python python3 -m unittest test_some)
set_tests_properties(python broken_python PROPERTIES WORKING_DIRECTORY "$work" ENVIRONMENT PYTHONDONTWRITEBYTECODE=1)
add_test(without_root sh -c "exit 77")
set_tests_properties(without_root PROPERTIES SKIP_RETURN_CODE 77)
add_test(broken_unit "$work/program" 8 2 0 1)
add_test(leak "$work/program" 3 0 0 1)
add_test(broken_script false)
add_test(broken_shell "$work/shell_test")
add_test(fixture_up false)
set_tests_properties(fixture_up PROPERTIES FIXTURES_SETUP fixture)
add_test(needs_fixture true)
set_tests_properties(needs_fixture PROPERTIES FIXTURES_REQUIRED fixture)
add_test(not_built "$work/nowhere")
C
closing() { # ctest-arguments...: prints the last line of run.sh after a step with these tests
  . tests/steps.sh
  step "some tests" run_tests dev some "$@" >/dev/null 2>&1 || true
  summary | tail -n 1 || true
  rm -rf "$reports"
}
expect() { # line ctest-arguments...
  local line
  line=$(closing "${@:2}")
  [ "$line" = "$1" ] || fail "ctest ${*:2}: expected '$1', got '$line'"
}
expect '13 passed, 0 failed, 3 skipped' -R '^(unit|script|without_root)$'
expect '2 passed, 0 failed, 1 skipped' -R '^python$'
expect '3 passed, 2 failed, 1 skipped' -R '^broken_python$'
expect '0 passed, 1 failed, 0 skipped' -R '^broken_script$'
expect '8 passed, 2 failed, 0 skipped' -R '^broken_unit$'
expect '3 passed, 1 failed, 0 skipped' -R '^leak$'
expect '0 passed, 1 failed, 1 skipped' -R '^(fixture_up|needs_fixture)$'
expect '0 passed, 1 failed, 1 skipped' -R '^not_built$'
expect '0 passed, 1 failed, 0 skipped' -R '^no_such_test$'
expect '29 passed, 8 failed, 7 skipped'

# The failed tests and the reasons for the failures are printed, too.
. tests/steps.sh
step "some tests" run_tests dev some -R '^(unit|broken_)' >/dev/null 2>&1 || true
said=$(summary || true)
for line in 'failed: broken_unit, after [0-9]+ s' '  some.cc:7: Failure' '  \[  FAILED  \] Suite.Case \(0 ms\)' \
  'failed: broken_python, after [0-9]+ s' '  ERROR: test_error \(test_some.Broken.*\)' '  KeyError' 'failed: broken_script, after [0-9]+ s' \
  '  the beginning went on' '  FAILED: the cut node: not told'; do
  grep -Eqx -- "$line" <<<"$said" || fail "expected '$line' in the summary, got: $said"
done
! grep -q 'failed: unit' <<<"$said" || fail "the summary lists a passed step as failed: $said"
rm -rf "$reports"

# A failed step without tests counts as one failure.
. tests/steps.sh
step "a build" false >/dev/null || true
line=$(summary | tail -n 1 || true)
[ "$line" = '0 passed, 1 failed, 0 skipped' ] || fail "unexpected summary of a failed build: $line"
