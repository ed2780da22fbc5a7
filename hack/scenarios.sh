#!/usr/bin/env bash
# Runs the scenarios, with the arguments for go test. Many of them share the machine, and some are about time: up to
# three that fail are run once more, one by one, and the output says that they are not steady. What fails alone, too,
# has failed, and so has a run that did not get to its end.
set -uo pipefail
cd "$(dirname "$0")/../test/scenarios" || exit 1

log=$(mktemp)
trap 'rm -f "$log"' EXIT
go test -count=1 "$@" ./... 2>&1 | tee "$log" && exit 0

mapfile -t failed < <(sed -n 's/^--- FAIL: \(Test[A-Za-z0-9_]*\) .*/\1/p' "$log" | sort -u)
if ((${#failed[@]} == 0 || ${#failed[@]} > 3)) || grep -qE '^(panic|fatal error|WARNING: DATA RACE)' "$log"; then
  exit 1
fi
pattern=$(IFS='|' && echo "^(${failed[*]})\$")
printf '\n== %s failed beside the others; once more, alone\n' "${failed[*]}"
go test -count=1 "$@" -parallel 1 -run "$pattern" ./... || exit 1
printf '\n== NOT STEADY, though they pass alone: %s\n' "${failed[*]}"
