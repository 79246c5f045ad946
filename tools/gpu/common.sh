# SPDX-License-Identifier: Apache-2.0
# Sourced by the scripts beside it: where things are, and a log of every command with its exit code and its seconds.
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
out=${1:?expected a folder for logs and results}
work=${WORK:-$out/work}
models=${MODELS:-models}
mkdir -p "$out" "$work"
export LD_LIBRARY_PATH=$here/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} SLIPSTREAM_PLUGINS=$here SLIPSTREAM_FIXTURES=$here/fixtures
failed=0

source "$here/end_tree.sh"

# try NAME SECONDS COMMAND...   runs it with a limit, keeps its output as NAME.log, and goes on whatever comes
try() {
  local name=$1 limit=$2 began=$SECONDS code=0
  shift 2
  timeout "$limit" "$@" >"$out/$name.log" 2>&1 || code=$?
  printf '%s\t%s\t%ss\t%s\n' "$name" "$code" "$((SECONDS - began))" "$*" | tee -a "$out/commands.tsv"
  ((code == 0)) || { failed=1; tail -n 5 "$out/$name.log"; }
  return 0
}

device_facts() {
  { nvidia-smi; nvidia-smi --query-gpu=name,driver_version,clocks.sm,clocks.mem,clocks.max.sm,clocks.max.mem,power.limit,memory.total --format=csv; uname -a; cat "$here/commit"; } \
    >"$out/device.log" 2>&1 || true
}

# A folder of random weights of the released model's shape; made once, on the machine's own disk.
shape_3b() { [[ -f "$work/3b/config.json" ]] || "$here/slipstream" synthesize --like qwen2.5-vl-3b --dtype bf16 --out "$work/3b" >"$out/synthesize.log" 2>&1; }
shape_3b_2_layers() { [[ -f "$work/3b-2/config.json" ]] || "$here/slipstream" synthesize --like qwen2.5-vl-3b --dtype bf16 --layers 2 --out "$work/3b-2" >>"$out/synthesize.log" 2>&1; }
