# A thin front to CMake: every target is one line. `make` leaves the program at build/headroom, and where nvcc is the CUDA
# plug-in beside it.
JOBS ?= $(shell nproc)
PLUGIN := $(if $(shell command -v nvcc 2>/dev/null),headroom_cuda)

.PHONY: all program setup demo test bench format fuzz install clean

all: build/build.ninja
	@$(if $(PLUGIN),grep -q '^HR_CUDA:BOOL=ON' build/CMakeCache.txt || cmake -DHR_CUDA=ON build >/dev/null)
	@cmake --build build -j $(JOBS) --target headroom $(PLUGIN)

# The program alone: what the demo and the CPU's benchmarks need.
program: build/build.ninja
	@cmake --build build -j $(JOBS) --target headroom

build/build.ninja: | CMakePresets.json
	@command -v cmake >/dev/null && command -v ninja >/dev/null || { echo "cmake or ninja is missing: run tools/setup"; exit 1; }
	@cmake --preset release

setup:
	@tools/setup

demo: setup
	@$(MAKE) --no-print-directory program
	@tools/demo

test: setup
	@tools/test

bench: setup
	@$(MAKE) --no-print-directory program
	@cmake --build build -j $(JOBS) --target bench_products
	@bench/run

format:
	@tools/format

fuzz: setup
	@tools/fuzz

install: all
	@cmake --build build -j $(JOBS) --target headroom_static
	@cmake --install build

clean:
	rm -rf build build-*
