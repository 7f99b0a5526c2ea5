# A thin front to CMake: every target is one line. `make` leaves the program at build/headroom.
JOBS ?= $(shell nproc)

.PHONY: all setup demo test bench format fuzz install clean

all: build/build.ninja
	@cmake --build build -j $(JOBS) --target headroom

build/build.ninja: | CMakePresets.json
	@command -v cmake >/dev/null && command -v ninja >/dev/null || { echo "cmake or ninja is missing: run tools/setup"; exit 1; }
	@cmake --preset release

setup:
	@tools/setup

demo: setup
	@$(MAKE) --no-print-directory all
	@tools/demo

test: setup
	@tools/test

bench: setup
	@$(MAKE) --no-print-directory all
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
