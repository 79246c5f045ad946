#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Packs the trainer for a machine with a GPU that has g++, PyTorch's wheel and none of Debian's libraries, as FOLDER and FOLDER.tar.xz.
#   pack_trainer.sh FOLDER [BUILD [MODEL...]]     BUILD: build/release, built before; MODEL: folders that configurations name, such as models/demo
# All that does not include torch travels as it was built here: archives, objects and the shared libraries that they need (not the C and C++
# libraries, which must be Debian 12's or later). What includes torch travels as source with the headers that it was compiled with, and
# build_trainer.sh compiles it there, against the torch found there. Gloo stays here, so that the packed trainer runs in one process.
#   ENGINE=0: without the program slipstream, its plug-in for devices and what those load. OPENBLAS=0: without OpenBLAS, which a model on a device
#   does not use; plain loops stand in for its two functions. Together they make half of the pack.
set -euo pipefail
cd "$(dirname "$0")/../.."
folder=$(realpath -m "${1:?expected a folder to write}") build=${2:-build/release}
models=("${@:3}")
refuse() { echo "pack_trainer: $*" >&2; exit 1; }
trainer=$build/slipstream-train
for file in "$trainer" "$build/slipstream"; do
  [[ -f "$file" ]] || refuse "expected $file (cmake --build $build --target slipstream slipstream-train)"
done
for model in "${models[@]}"; do
  [[ "$model" != /* && -d "$model" ]] || refuse "expected a model's folder, relative to $PWD, got $model"
done
[[ ! -e "$folder" || -f "$folder/commit" ]] || refuse "expected a new folder or an earlier pack's, got $folder"
rm -rf "$folder" "$folder.tar.xz"
mkdir -p "$folder"/{archives,objects,lib,third_party}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# Ninja is asked over a copy of its files: a build that runs meanwhile is not disturbed.
mkdir -p "$scratch/ninja/CMakeFiles"
cp "$build"/{build.ninja,.ninja_deps,.ninja_log} "$scratch/ninja/"
cp "$build/CMakeFiles/rules.ninja" "$scratch/ninja/CMakeFiles/"
ask() { ninja -n -C "$scratch/ninja" -t "$@" | grep -v '^ninja: Entering'; }

# The link's parts, in its order. Each archive X/libT.a is made of the objects in X/CMakeFiles/T.dir.
ask commands slipstream-train | tail -n 1 | tr ' ' '\n' >"$scratch/link"
mapfile -t archives < <(grep -E '^src/.*\.a$' "$scratch/link")
mapfile -t shared < <(grep -E '^/.*\.so[.0-9]*$' "$scratch/link" | grep -vE '/lib(torch|c10|protobuf|glog|gflags|gomp)[^/]*$')
((${#archives[@]} > 0)) || refuse "expected archives in the link of $trainer, got none"

# "object<tab>source<tab>file": every file that an object of the link includes, where the object includes torch.
ask deps | awk -v parts="${archives[*]} src/train/libslipstream-train.a" '
  function close_object() { if (torch) printf "%s", lines; torch = 0; lines = "" }
  BEGIN { n = split(parts, list, " "); for (i = 1; i <= n; ++i) { p = list[i]; sub(/lib[^\/]*\.a$/, "", p); t = list[i]; gsub(/^.*\/lib|\.a$/, "", t); own[p "CMakeFiles/" t ".dir/"] = 1 } }
  /^[^ ]/ { close_object(); object = $1; sub(/:$/, "", object); dir = object; sub(/\.dir\/.*$/, ".dir/", dir); wanted = dir in own; source = ""; next }
  wanted && NF == 1 { if (source == "") source = $1; if ($1 ~ /\/(ATen|c10|torch)\//) torch = 1; lines = lines object "\t" source "\t" $1 "\n" }
  END { close_object() }' >"$scratch/deps"
mapfile -t outdated < <(cut -f 3 "$scratch/deps" | sort -u | grep "^$PWD/" | xargs -I{} find {} -newer "$trainer")
((${#outdated[@]} == 0)) || refuse "expected a build newer than ${outdated[0]} (cmake --build $build --target slipstream-train)"

for archive in "${archives[@]}"; do cp "$build/$archive" "$folder/archives/"; done
cp "$build/src/train/CMakeFiles/slipstream-train.dir/main.cc.o" "$folder/objects/"
while IFS=$'\t' read -r object source; do
  archive=$(sed -E 's,CMakeFiles/([^/]*)\.dir/.*,lib\1.a,' <<<"$object")
  if [[ "$object" == */slipstream-train.dir/main.cc.o ]]; then rm "$folder/objects/main.cc.o"; else ar d "$folder/archives/$(basename "$archive")" "$(basename "$object")"; fi
  mapfile -t flags < <(ask commands "$object" | tail -n 1 | tr ' ' '\n' | grep -E '^(-O.|-f.*|-m.*|-std=.*|-DNDEBUG|-DFMT_SHARED|-DSLIP_.*)$')
  if [[ "$source" == */exchange_gloo.cc ]]; then continue; fi
  if [[ "$source" == */processes_gloo.cc ]]; then
    c++ "${flags[@]}" -Isrc -Iinclude -c -o "$folder/objects/processes_none.cc.o" "$(dirname "$source")/processes_none.cc"
    continue
  fi
  printf '%s\t%s\n' "${source#"$PWD"/}" "${flags[*]}" >>"$folder/sources"
  awk -F'\t' -v object="$object" '$1 == object { print $3 }' "$scratch/deps" >>"$scratch/files"
done < <(cut -f 1,2 "$scratch/deps" | uniq)
for archive in "$folder"/archives/*.a; do strip --strip-debug "$archive"; done

# The project's headers with their paths, and other libraries' with theirs; the C and C++ libraries' and torch's are there.
sort -u "$scratch/files" | sed -n "s,^$PWD/,,p" | xargs cp --parents -t "$folder"
sort -u "$scratch/files" | sed -nE 's,^/usr/include/([^/]+/.*),\1,p' | grep -vE '^(c\+\+|x86_64-linux-gnu|asm-generic|linux|ATen|c10|caffe2|torch|gloo|glog|gflags)/' |
  (cd /usr/include && xargs cp --parents -t "$folder/third_party")

if [[ "${OPENBLAS:-1}" == 0 ]]; then
  mapfile -t shared < <(printf '%s\n' "${shared[@]}" | grep -v openblas)
  c++ -O3 -fPIC -x c++ -c -o "$folder/objects/cblas_plain.o" - <<'CPP'
// Row-major products, C = alpha op(A) op(B) + beta C; 111: as it is, else transposed.
template <class T>
static void product(int trans_a, int trans_b, int m, int n, int k, T alpha, const T* a, int lda, const T* b, int ldb, T beta, T* c, int ldc) {
  for (int i = 0; i < m; ++i) {
    T* row = c + static_cast<long>(i) * ldc;
    for (int j = 0; j < n; ++j) row[j] = beta == 0 ? 0 : beta * row[j];
    for (int l = 0; l < k; ++l) {
      const T x = alpha * (trans_a == 111 ? a[static_cast<long>(i) * lda + l] : a[static_cast<long>(l) * lda + i]);
      for (int j = 0; j < n; ++j) row[j] += x * (trans_b == 111 ? b[static_cast<long>(l) * ldb + j] : b[static_cast<long>(j) * ldb + l]);
    }
  }
}
extern "C" void cblas_sgemm(int, int ta, int tb, int m, int n, int k, float alpha, const float* a, int lda, const float* b, int ldb, float beta, float* c, int ldc) {
  product(ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}
extern "C" void cblas_dgemm(int, int ta, int tb, int m, int n, int k, double alpha, const double* a, int lda, const double* b, int ldb, double beta, double* c, int ldc) {
  product(ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}
CPP
fi

# The engine beside the trainer, to evaluate there what was trained there.
programs=()
if [[ "${ENGINE:-1}" != 0 ]]; then
  programs=("$build/slipstream")
  [[ ! -f "$build/libslipstream_cuda.so" ]] || programs+=("$build/libslipstream_cuda.so")
fi
for program in "${programs[@]}"; do strip -o "$folder/$(basename "$program")" "$program"; done
for library in "${shared[@]}"; do
  name=$(readelf -d "$library" | sed -n 's/.*(SONAME).*\[\(.*\)\]/\1/p')
  cp -L "$library" "$folder/lib/$name"
  echo "lib/$name" >>"$folder/shared"
done
ldd "${programs[@]}" "${shared[@]}" | awk '$2 == "=>" { print $3 }' | sort -u |
  grep -vE '/(libc|libm|libdl|libpthread|librt|libgcc_s|libstdc\+\+|libgomp)\.so' | xargs cp -L -t "$folder/lib"
strip --strip-unneeded "$folder"/lib/*

cp -r configs "$folder/"
for model in "${models[@]}"; do cp -rL --parents "$model" "$folder/"; done
cp tools/gpu/{build_trainer,train_on_device,teach,end_tree}.sh "$folder/"
git describe --always --dirty --abbrev=40 --exclude '*' >"$folder/commit"
tar -C "$(dirname "$folder")" -c "$(basename "$folder")" | xz -9 >"$folder.tar.xz"
echo "pack_trainer: $(($(stat -c %s "$folder.tar.xz") >> 10)) KiB in $folder.tar.xz; $(wc -l <"$folder/sources") files to compile there"
