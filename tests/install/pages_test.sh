#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Man pages and completions against the program: every command and option of --help is there, and nothing else.
#   pages_test.sh PROGRAM WORK_DIR
set -euo pipefail
program=$(realpath "$1") work=$(realpath -m "$2")
rm -rf "$work"
mkdir -p "$work"
"$program" pages "$work"
pages=$work/man1
bash_file=$work/slipstream.bash
zsh_file=$work/_slipstream
fish_file=$work/slipstream.fish

fail() { printf 'pages_test: %s\n' "$*" >&2; exit 1; }
# Words of a section of --help: commands, or options with their minus signs.
commands_in() { sed -n '/^Subcommands:/,$p' <<<"$1" | sed -n 's/^  \([a-z][a-z-]*\) .*/\1/p'; }
options_in() { sed -n '/^Options:/,/^Subcommands:/p' <<<"$1" | sed -n 's/^  \(-[^ ]*\).*/\1/p' | tr ',' '\n' | sort -u; }

# offers WORD...   what bash offers behind these words
offers() {
  (
    # shellcheck source=/dev/null
    source "$bash_file"
    COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMPREPLY=()
    _slipstream
    ((${#COMPREPLY[@]} == 0)) || printf '%s\n' "${COMPREPLY[@]}" | sort -u
  )
}

# check COMMAND...   a command's page and completions, then those of its own commands
check() {
  local help page options commands name
  help=$("$program" "$@" --help)
  name=$(IFS=-; echo "slipstream${*:+-$*}")
  page=$pages/$name.1
  [[ -s "$page" ]] || fail "$name: expected $page"
  options=$(options_in "$help")
  documented=$(sed 's/\\-/-/g' "$page" | sed -n '/^\.SH OPTIONS/,/^\.SH EXIT/{/^\.TP/{n;p}}' | grep -o '\\fB-[^\\]*' | cut -c4- | sort -u)
  [[ "$options" == "$documented" ]] || fail "$name: expected options $options, got $documented"
  [[ "$options" == "$(offers slipstream "$@" -)" ]] || fail "$name: expected bash to offer $options"
  if command -v man >/dev/null; then
    warnings=$(LC_ALL=C.UTF-8 MANROFFSEQ='' MANWIDTH=80 man --warnings -E UTF-8 -l -Tutf8 -Z "$page" 2>&1 >/dev/null || true)
    [[ -z "$warnings" ]] || fail "$name: expected a page without warnings, got $warnings"
  fi
  commands=$(commands_in "$help" | sort -u)
  [[ -z "$commands" || "$commands" == "$(offers slipstream "$@" '')" ]] || fail "$name: expected bash to offer $commands"
  for option in $options; do
    grep -q -- "'\*\?$option\[" "$zsh_file" || fail "$name: expected $option in $zsh_file"
    [[ $option != --* ]] || grep -q -- " -l ${option#--} " "$fish_file" || fail "$name: expected $option in $fish_file"
  done
  local command
  for command in $commands; do check "$@" "$command"; done
}
check

grep -qx scaffold-spec <(offers slipstream run --decoder '') || fail 'expected bash to offer decoders'
grep -qx bf16 <(offers slipstream run --dtype =) || fail 'expected bash to offer types behind an equals sign'
[[ "$(offers slipstream run --dtype b)" == bf16 ]] || fail 'expected bash to complete a type'
[[ -z "$(offers slipstream run --threads '')" ]] || fail 'expected bash to leave numbers alone'
mkdir "$work/complete here"
cd "$work"
grep -qx 'complete here' <(offers slipstream inspect 'complete h') || fail 'expected bash to offer folders'
bash -n "$bash_file"
if command -v zsh >/dev/null; then zsh -n "$zsh_file"; fi
if command -v fish >/dev/null; then
  fish --no-execute "$fish_file"
  offered=$(fish --no-config -c "source '$fish_file'; complete -C 'slipstream run --dtype '")
  grep -q '^bf16' <<<"$offered" || fail "expected fish to offer types, got $offered"
fi
echo 'pages_test: man pages and completions are those of the program'
