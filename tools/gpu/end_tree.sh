# SPDX-License-Identifier: Apache-2.0
# Sourced by scripts that start others.

# end_tree PROCESS   ends it and all that it has started, also what has a group of its own, as under timeout
end_tree() {
  local below=()
  kill -STOP "$1" 2>/dev/null || true # first, so that it starts nothing more once its children are known
  for _ in {1..100}; do               # a second at most; one that waits for a disk stops when that has answered
    grep -qsE '^State:[[:space:]]+[^TtZX]' /proc/"$1"/task/*/status || break
    sleep 0.01
  done
  read -r -d '' -a below < <(cat /proc/"$1"/task/*/children 2>/dev/null) || true
  kill "$1" 2>/dev/null || true
  kill -CONT "$1" 2>/dev/null || true # to its end
  local child
  for child in "${below[@]}"; do end_tree "$child"; done
}
