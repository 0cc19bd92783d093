#!/bin/sh
# Runs a command that says nothing for minutes, with a dot every few seconds; its errors and its exit code stay.
set -u
(
    while sleep 5 && kill -0 $$ 2>/dev/null; do printf '.'; done
) &
dots=$!
trap 'kill $dots 2>/dev/null' EXIT
trap 'exit 130' INT TERM
"$@"
status=$?
kill $dots 2>/dev/null
echo
exit $status
