#!/usr/bin/env bash
# The GPU tests on a machine that has a GPU but not the libraries of the build.
#
#   test/cuda/run_on_gpu.sh pack   where nvcc is: builds into build-cuda and packs tests, plug-in and libraries into
#                                  build-cuda/carry/gpu.tar.gz
#   test/cuda/run_on_gpu.sh run    where the GPU is: unpacks that file and runs the tests; a skipped test is a failure.
#                                  Needs CUDA's libcublasLt; OUT names a folder for the log.
set -euo pipefail
cd "$(dirname "$0")/../.."
build="build-cuda"
tests="cuda_test_ops_cuda cuda_test_perceptron"

pack() {
  cmake -S . -B "$build" -DCMAKE_BUILD_TYPE=RelWithDebInfo -DHR_CUDA=ON
  # shellcheck disable=SC2086
  cmake --build "$build" --parallel "$(nproc)" --target headroom_cuda $tests
  stage=$build/carry/gpu
  rm -rf "$stage" && mkdir -p "$stage"
  for file in $tests libheadroom_cuda.so; do
    strip -o "$stage/$file" "$build/$file"
  done
  # Libraries of the C side; the C and C++ runtimes and cuBLASLt are the other machine's.
  for file in $tests; do
    ldd "$build/$file"
  done | awk '$3 ~ /^\// { print $3 }' | sort -u |
    grep -Ev '/(libc|libm|libdl|librt|libpthread|libgcc_s|libstdc\+\+|ld-linux[^/]*)\.so' |
    while read -r library; do cp -L "$library" "$stage/"; done
  strip --strip-unneeded "$stage"/*.so*
  tar -C "$stage" -cf - . | gzip -6 > "$build/carry/gpu.tar.gz"
  rm -rf "$stage"
  ls -l "$build/carry/gpu.tar.gz"
}

run() {
  folder=$(mktemp -d)
  trap 'rm -rf "$folder"' EXIT
  tar -C "$folder" -xzf "$build/carry/gpu.tar.gz"
  cublas=$(find /usr/local/cuda*/ /usr/lib /opt -name 'libcublasLt.so.13' -print -quit 2> /dev/null || true)
  [ -n "$cublas" ] || { echo "libcublasLt.so.13 was not found" >&2; exit 1; }
  LD_LIBRARY_PATH="$folder:$(dirname "$cublas")${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
  export LD_LIBRARY_PATH
  nvidia-smi --query-gpu=name,driver_version,memory.total,memory.used --format=csv || true
  log=${OUT:-$folder}/gpu_tests.log
  failed=0
  for name in $tests; do
    attempt "$name" "$folder/$name"
  done
  if command -v compute-sanitizer > /dev/null; then
    attempt "memory check" compute-sanitizer --tool memcheck --error-exitcode 9 "$folder/cuda_test_ops_cuda"
  fi
  exit "$failed"
}

# attempt NAME COMMAND...: runs it for at most 3 minutes; output also to the log.
attempt() {
  status=0
  timeout 180 "${@:2}" 2>&1 | tee -a "$log" || status=${PIPESTATUS[0]}
  echo "$1: exit $status" | tee -a "$log"
  [ "$status" = 0 ] || failed=1
}

case "${1:-}" in
  pack) pack ;;
  run) run ;;
  *) sed -n '2,9s/^# \{0,1\}//p' "$0"; exit 2 ;;
esac
