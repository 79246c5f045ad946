#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What libslipstream.so shows: the functions of slipstream.h, the public C++ ones, and nothing else; and that the C interface is what programs
# were built against: slipstream_c.abi holds its functions, structs and numbers, abidiff compares.
#   abi_test.sh SOURCE_DIR LIBRARY WORK_DIR            compares
#   abi_test.sh SOURCE_DIR LIBRARY WORK_DIR --accept   writes the description anew: for an interface that grew, or under another number
set -euo pipefail
source_dir=$1 library=$2 work=$3
description=$source_dir/tests/install/slipstream_c.abi
fail() { printf 'abi_test: %s\n' "$*" >&2; exit 1; }
mkdir -p "$work"

symbols=$(nm -D --defined-only -C "$library" | sed 's/^[0-9a-f]* [A-Za-z] //; s/@@SLIPSTREAM_0$//' | sort -u)
strangers=$(grep -vE '^((typeinfo|typeinfo name|vtable) for )?slipstream::|^slip_[a-z_]+$|^SLIPSTREAM_0$' <<<"$symbols" || true)
[[ -z "$strangers" ]] || fail "expected slip_* and slipstream:: alone, got $strangers"
[[ "$(nm -D --defined-only "$library")" == *slip_version@@SLIPSTREAM_0* ]] || fail 'expected symbols of version SLIPSTREAM_0'
# The declarations, one a line, of the preprocessed header.
declarations=$(cc -E -P "$source_dir/include/slipstream.h" | tr '\n' ' ' | sed 's/; */;\n/g' | grep -v typedef | grep -E '\<slip_[a-z_]+\(' || true)
declared=$(grep -oE '\<slip_[a-z_]+\(' <<<"$declarations" | tr -d '(' | sort -u)
[[ -n "$declared" && "$declared" == "$(grep -E '^slip_' <<<"$symbols")" ]] ||
  fail "expected the functions of slipstream.h, got $(grep -E '^slip_' <<<"$symbols")"
readelf -d "$library" | grep -q 'SONAME.*\[libslipstream\.so\.0\]' || fail 'expected the soname libslipstream.so.0'

command -v abidw >/dev/null || { echo 'abi_test: symbols are right; types not compared: no abigail-tools here'; exit 0; }
# A library of these functions and no other types than the header's: small, and described wherever it is built.
{
  echo '#include "slipstream.h"'
  echo "${declarations//;/ { return 0; \}}"
} >"$work/probe.c"
cc -std=c99 -g -w -fPIC -shared -I"$source_dir/include" "$work/probe.c" -o "$work/libslipstream_c.so"
if [[ "${4:-}" == --accept ]]; then
  abidw --no-corpus-path --no-comp-dir-path --no-show-locs --no-elf-needed --out-file "$description" "$work/libslipstream_c.so"
  sed -i "s| path='[^']*'||; s| comp-dir-path='[^']*'||; s| language='[^']*'||" "$description"
fi
abidiff --no-added-syms "$description" "$work/libslipstream_c.so" ||
  fail 'programs built against the interface would break: see above; under a new slip_abi_version run with --accept'
echo 'abi_test: the interface is what it was'
