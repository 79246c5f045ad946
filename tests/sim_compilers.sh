#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The simulator's promise: the same bytes from the same seed, whatever the compiler and the optimisation.
# Usage: sim_compilers.sh SOURCE_DIR. Compilers that are not installed are named and left out.
set -euo pipefail
source_dir=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
files=("$source_dir"/tests/sim_hash.cc "$source_dir"/src/base/{beside,file,json,interrupt}.cc)
while read -r f; do files+=("$f"); done < <(find "$source_dir"/src/sim -name '*.cc' ! -name '*_test.cc')
reference=
for compiler in g++ clang++; do
  command -v "$compiler" >/dev/null || { echo "$compiler: not installed, left out"; continue; }
  for level in -O1 -O2 -O3; do
    "$compiler" -std=c++20 $level -ffp-contract=off -w -I"$source_dir"/src -I"$source_dir"/include "${files[@]}" -lfmt -lpthread -o "$work"/hash
    hash=$("$work"/hash)
    echo "$compiler $level $hash"
    reference=${reference:-$hash}
    [[ $hash == "$reference" ]] || { echo "expected $reference, got $hash"; exit 1; }
  done
done
