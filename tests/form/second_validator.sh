#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# second_validator.sh PYTHON FILE TEST FILTER: lets the test write random answers with their schemas into the file (SLIP_ANSWERS), and asks
# tests/form/validate.py of each. Exit 77 where the second validator is missing.
set -e
"$1" -c 'import jsonschema' 2>/dev/null || { echo "python3-jsonschema is not installed"; exit 77; }
rm -f "$2"
SLIP_ANSWERS="$2" "$3" --gtest_brief=1 --gtest_filter="$4"
exec "$1" "$(dirname "$0")/validate.py" "$2"
