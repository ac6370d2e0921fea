# Shortcuts for developers. CMake does the work; packagers call CMake and do not need this file.

MAKEFLAGS += --no-print-directory

BUILD ?= build
JOBS ?= $(shell nproc 2>/dev/null || echo 2)
RELEASE = $(BUILD)/release
PREFIX ?= /usr/local

.PHONY: all deps deps-build run test check long bench dist install format clean

all: deps-build
	cmake -S . -B "$(RELEASE)" -DCMAKE_BUILD_TYPE=RelWithDebInfo \
	      -DCMAKE_INSTALL_PREFIX="$(PREFIX)" -DTENMAP_TESTS=OFF -DTENMAP_BENCH=OFF
	cmake --build "$(RELEASE)" -j $(JOBS)

# Installs what building and testing need with apt, as root; otherwise prints what to install.
deps:
	@sh scripts/deps.sh test

deps-build:
	@sh scripts/deps.sh build

# Builds, writes a small demo model into the build folder, opens it, and tours the tool.
run: all
	"$(RELEASE)/examples/demo" "$(RELEASE)/demo.safetensors"
	"$(RELEASE)/examples/show" "$(RELEASE)/demo.safetensors"
	@sh scripts/tour.sh "$(RELEASE)/tool/tenmap" "$(RELEASE)/demo.safetensors"

# Tests compare with other implementations, which go below the build folder (scripts/peers.sh).
test: deps
	@sh scripts/peers.sh "$(BUILD)/peers" || [ $$? = 77 ]
	cmake -S . -B "$(BUILD)/test" -DCMAKE_BUILD_TYPE=RelWithDebInfo \
	      -DTENMAP_PEERS="$(abspath $(BUILD))/peers" $(CMAKE_OPTIONS)
	cmake --build "$(BUILD)/test" -j $(JOBS)
	sh scripts/run-tests.sh "$(BUILD)/test"

# The checks that every change must pass: under an hour on two processors (docs/testing.md).
check:
	bash .ci/run --all

# The checks that take hours: every F32 value, a million differential cases, fuzzing, more kills,
# larger files.
long: deps
	bash scripts/long.sh

# Prints one table per benchmark; docs/performance.md explains them.
bench: deps
	@for bench in bench/*.sh; do \
	    [ $$bench = bench/smoke.sh ] || sh $$bench || [ $$? = 77 ] || exit 1; \
	done

# Builds every file of a release for every system, tests them, and prints a table
# (docs/releasing.md).
dist:
	BUILD="$(BUILD)" sh scripts/dist.sh
	BUILD="$(BUILD)" sh scripts/dist-test.sh

install: all
	cmake --install "$(RELEASE)"

format:
	@sh scripts/format.sh

clean:
	rm -rf "$(BUILD)"
