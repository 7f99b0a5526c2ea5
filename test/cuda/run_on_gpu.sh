#!/usr/bin/env bash
# Tests and benchmarks on a machine that has a GPU but not the libraries of the build.
#
#   test/cuda/run_on_gpu.sh pack          where nvcc is: builds into build-cuda and packs program, tests, plug-in and
#                                         libraries into build-cuda/carry/gpu.tar.xz. ARCHITECTURES: as CMake takes them
#   test/cuda/run_on_gpu.sh test          where the GPU is: unpacks that file and runs the tests; a skipped one fails
#   test/cuda/run_on_gpu.sh check         the ops' tests under compute-sanitizer, memcheck and racecheck
#   test/cuda/run_on_gpu.sh suite [PART]  the program on the GPU: same bits, planned memory, resume, refusals (suite.py)
#   test/cuda/run_on_gpu.sh with COMMAND  unpacks, and runs COMMAND with HEADROOM naming the program
#
# Where the GPU is, CUDA's libcublasLt is needed (and libcudnn, where it is there); OUT names a folder for logs.
set -euo pipefail
cd "$(dirname "$0")/../.."
build="build-cuda"
tests="cuda_test_ops_cuda cuda_test_perceptron cuda_test_streams_cuda cuda_test_pairs_cuda cuda_test_few_cuda cuda_test_lora_cuda bench_scan bench_pointwise bench_convs bench_input bench_token"

pack() {
  cmake -G Ninja -S . -B "$build" -DCMAKE_BUILD_TYPE=RelWithDebInfo -DHR_CUDA=ON -DHR_FATBIN=--compress-mode=none \
    ${ARCHITECTURES:+-DCMAKE_CUDA_ARCHITECTURES="$ARCHITECTURES"} > "$build.log"
  # shellcheck disable=SC2086
  cmake --build "$build" --parallel "$(nproc)" --target headroom headroom_cuda $tests
  stage=$build/carry/gpu
  rm -rf "$stage" && mkdir -p "$stage"
  for file in headroom $tests libheadroom_cuda.so; do
    strip -o "$stage/$file" "$build/$file"
  done
  # Libraries of the C side; the C and C++ runtimes and cuBLASLt are the other machine's.
  for file in headroom $tests; do
    ldd "$build/$file"
  done | awk '$3 ~ /^\// { print $3 }' | sort -u |
    grep -Ev '/(libc|libm|libdl|librt|libpthread|libgcc_s|libstdc\+\+|ld-linux[^/]*)\.so' |
    while read -r library; do cp -L "$library" "$stage/"; done
  strip --strip-unneeded "$stage"/*.so*
  tar -C "$stage" --sort=name -cf - . | xz -9 > "$build/carry/gpu.tar.xz"
  rm -rf "$stage"
  ls -l "$build/carry/gpu.tar.xz"
}

# Unpacks into $folder and lets the libraries be found.
unpack() {
  folder=$(mktemp -d)
  trap 'rm -rf "$folder"' EXIT
  tar -C "$folder" -xJf "$build/carry/gpu.tar.xz" || python3 -m tarfile -e "$build/carry/gpu.tar.xz" "$folder"
  for library in libcublasLt.so.13 libcudnn.so.9; do
    # Beside PyTorch first: its cuDNN is newer than a system's often is.
    found=$(find /opt /usr/local/cuda*/ /usr/lib -name "$library" -print -quit 2> /dev/null || true)
    echo "$library: ${found:-not found}"
    LD_LIBRARY_PATH="$folder${found:+:$(dirname "$found")}${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
  done
  export LD_LIBRARY_PATH
  export HEADROOM="$folder/headroom"
  nvidia-smi --query-gpu=name,driver_version,memory.total,memory.used --format=csv || true
  log=${OUT:-$folder}/gpu_tests.log
  failed=0
}

# attempt NAME COMMAND...: runs it for at most LIMIT seconds; output also to the log.
attempt() {
  status=0
  timeout "${LIMIT:-180}" "${@:2}" 2>&1 | tee -a "$log" || status=${PIPESTATUS[0]}
  echo "$1: exit $status" | tee -a "$log"
  [ "$status" = 0 ] || failed=1
}

# ops NAME COMMAND...: the ops' test under COMMAND, all ops (or those of HEADROOM_OPS) dealt out to processes side by side:
# the CPU's kernels, which they are compared with, take most of the time.
ops() {
  hands=$(($(nproc) < 8 ? $(nproc) : 8))
  for ((hand = 0; hand < hands; hand++)); do
    names=$(tr ',' '\n' <<< "${HEADROOM_OPS:-$(sed -n 's/^HR_OP(\([a-z0-9_]*\),.*/\1/p' src/op/ops.def)}" |
      grep -vE '^(fetch|store|wait)$' | awk "NR % $hands == $hand" | paste -sd, -)
    [ -z "$names" ] || HEADROOM_OPS=$names attempt "$1 of $names" "${@:2}" "$folder/cuda_test_ops_cuda" \
      > "$folder/$1.$hand" 2>&1 &
  done
  wait
  cat "$folder/$1".*
  ! grep -hE '^'"$1"' of .*: exit [1-9]' "$folder/$1".* || failed=1
}

case "${1:-}" in
  pack) pack ;;
  test)
    unpack
    ops test env
    for name in cuda_test_perceptron cuda_test_streams_cuda cuda_test_pairs_cuda cuda_test_few_cuda cuda_test_lora_cuda; do
      attempt "$name" "$folder/$name"
    done
    HEADROOM_ATTENTION=own HEADROOM_OPS=attention,attention_bwd attempt own_attention "$folder/cuda_test_ops_cuda"
    exit "$failed"
    ;;
  check)
    unpack
    # Attention by own kernels: racecheck takes the library's waiting for copies of its own for races.
    for tool in memcheck racecheck; do
      HEADROOM_ATTENTION=own HEADROOM_CASES=few ops "$tool" compute-sanitizer --tool "$tool" --error-exitcode 9
    done
    exit "$failed"
    ;;
  suite)
    unpack
    python3 test/cuda/suite.py --out "${OUT:-$folder}" "${@:2}"
    ;;
  with)
    unpack
    "${@:2}"
    ;;
  *) sed -n '2,12s/^# \{0,1\}//p' "$0"; exit 2 ;;
esac
