#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs into a clean tree, moves it, and uses it as a stranger would: examples/ built by CMake and by pkg-config, run on models/demo, their
# output looked at.
#   install_test.sh SOURCE_DIR BUILD_DIR
set -euo pipefail
source_dir=$1 build_dir=$2
work=$build_dir/install-test
model=$source_dir/models/demo
python=${SLIP_PYTHON_EXECUTABLE:-/usr/bin/python3}
rm -rf "$work"
mkdir -p "$work"
cd "$work"

fail() { printf 'install_test: %s\n' "$*" >&2; exit 1; }
# holds NAME TEXT PATTERN...   each pattern is found in the text
holds() {
  local name=$1 text=$2 pattern
  shift 2
  for pattern in "$@"; do grep -Eq -- "$pattern" <<<"$text" || fail "$name: expected $pattern, got: $text"; done
}

# A destination folder in front, and then another place: nothing in the tree may say where it was made.
DESTDIR=$work/stage cmake --install "$build_dir" --prefix /opt/slipstream >/dev/null
mv stage/opt/slipstream "$work/moved tree"
root="$work/moved tree"
libraries=$(dirname "$(find "$root" -name libslipstream.so)")
grep -rlI -e "$build_dir" -e "$source_dir" -e /opt/slipstream "$root" && fail "expected no file that names where it was made"
while read -r file; do
  path=$(readelf -d "$file" 2>/dev/null | sed -n 's/.*R.*PATH).*\[\(.*\)\]/\1/p')
  [[ -z "$path" || "$path" =~ ^(\$ORIGIN[^:]*:?)+$ ]] || fail "$file: expected a relative search path, got $path"
done < <(find "$root" -type f \( -name '*.so*' -o -perm -100 \))
holds version "$("$root/bin/slipstream" --version)" '^slipstream [0-9]+\.[0-9]+\.[0-9]+ \(.+; .+\)$'

# find_package
cmake -S "$source_dir/examples" -B by-cmake -G Ninja -DCMAKE_PREFIX_PATH="$root" -DCMAKE_BUILD_TYPE=Release >cmake.log 2>&1 ||
  fail "find_package: $(cat cmake.log)"
cmake --build by-cmake >build.log 2>&1 || fail "examples: $(cat build.log)"
plan='^plan, m: \([0-9.-]+, [0-9.-]+\)'
took='^[0-9]+ tokens in [0-9]+ forward passes, [0-9.]+ ms$'
fields='ms  future_meta_behavior.longitudinal = (keep speed|speed up|slow down|come to stop)$'
hello=$(by-cmake/hello "$model")
holds hello "$hello" "$fields" "$plan" "$took"
holds hello_c "$(by-cmake/hello_c "$model")" "$fields" "$plan" "$took"
frames=$(sed -n 's|^ *build/examples/make_frames build/frames \([0-9]*\)$|\1|p' "$source_dir/examples/README.md")
by-cmake/make_frames frames "$frames"
loop=$(by-cmake/camera_loop "$model" frames)
holds camera_loop "$loop" '^000 .*passes .* \([0-9.-]+, ' "^00$((frames - 1)) .* ms .*drafts held"
files=$(by-cmake/hello "$model" "$source_dir/examples/ego.json" frames/000/{1,2,3}.ppm)
holds 'hello with files' "$files" "$plan" "$took"
if by-cmake/hello "$model" "$source_dir/examples/ego.json" >out 2>err; then fail 'hello: expected an exit code where the pictures are missing'; fi
holds 'hello without pictures' "$(cat err)" '^hello: expected the cameras'
if by-cmake/hello /no/such/model >out 2>err; then fail 'hello: expected an exit code for a model that is not there'; fi
holds 'hello without a model' "$(cat err)" '^hello: .*/no/such/model'

# pkg-config
export PKG_CONFIG_PATH=$libraries/pkgconfig
mkdir by-pkg-config
ln -s "$root" tree # pkg-config's output is split at blanks
PKG_CONFIG_PATH=$work/tree/${libraries#"$root"/}/pkgconfig
read -ra flags <<<"$(pkg-config --cflags --libs slipstream)"
c++ -std=c++20 "$source_dir/examples/hello.cc" "${flags[@]}" -o by-pkg-config/hello
cc -std=c99 -pedantic -Wall -Wextra -Werror "$source_dir/examples/hello.c" "${flags[@]}" -o by-pkg-config/hello_c
for program in hello hello_c; do
  holds "$program by pkg-config" "$(LD_LIBRARY_PATH=$libraries by-pkg-config/$program "$model")" "$fields" "$plan" "$took"
done

# A form of one's own
form=$("$root/bin/slipstream" run --model "$model" --form "$source_dir/examples/crossing.json" --json --ego "$source_dir/examples/ego.json" \
  --image frames/000/1.ppm --image frames/000/2.ppm --image frames/000/3.ppm)
holds crossing.json "$form" '"scene.light":"(red|amber|green|none)"' '"action.longitudinal":"(keep speed|slow down|come to stop)"'

# Python
modules=$root/lib/python3/dist-packages
if [[ -d "$modules/slipstream" ]]; then
  export PYTHONPATH=$modules PYTHONDONTWRITEBYTECODE=1
  holds hello.py "$("$python" "$source_dir/examples/hello.py" "$model")" '^future_meta_behavior.longitudinal = ' "$plan" "$took"
  holds stream.py "$("$python" "$source_dir/examples/stream.py" "$model")" "^ *[0-9.]+ ms  pass +[0-9]+  " 'whole: [0-9]+ tokens$'
  # The same scene, the same engine: C++ and Python plan alike.
  [[ "$("$python" "$source_dir/examples/hello.py" "$model" | grep '^plan')" == "$(grep '^plan' <<<"$hello")" ]] ||
    fail 'hello.py: expected the plan of hello.cc'
fi

for page in man/man1/slipstream.1 man/man1/slipstream-run.1 man/man1/slipstream-bench-forward.1 bash-completion/completions/slipstream \
  zsh/site-functions/_slipstream fish/vendor_completions.d/slipstream.fish; do
  [[ -s "$root/share/$page" ]] || fail "expected share/$page"
done
echo 'install_test: the installed tree works'
