#!/usr/bin/env bash
# What reading a batch of 256 MiB costs a step, and planned against held memory: bench_input on the CPU, one thread less
# than cores, or on a GPU.
#
#   bench/input.sh [cpu]
#   test/cuda/run_on_gpu.sh with bash bench/input.sh cuda
set -euo pipefail
cd "$(dirname "$0")/.."
program=$(dirname "${HEADROOM:-build/headroom}")/bench_input
if [ "${1:-cpu}" = cuda ]; then
  "$program" bench/input.yaml memory.device=cuda model.config.width=4096 model.config.layers=3
else
  HEADROOM_THREADS=$(($(nproc) > 1 ? $(nproc) - 1 : 1)) "$program" bench/input.yaml
fi
