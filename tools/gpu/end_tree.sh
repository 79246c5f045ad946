# SPDX-License-Identifier: Apache-2.0
# Sourced by scripts that start others.

# end_tree PROCESS   ends it and all that it has started, also what has a group of its own, as under timeout
end_tree() {
  local below=()
  read -r -d '' -a below < <(cat /proc/"$1"/task/*/children 2>/dev/null) || true
  kill "$1" 2>/dev/null || true # first, so that it starts nothing more
  local child
  for child in "${below[@]}"; do end_tree "$child"; done
}
