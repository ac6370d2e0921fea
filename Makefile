# Shortcuts for developers. CMake does the work; packagers call CMake and do not need this file.

MAKEFLAGS += --no-print-directory

BUILD ?= build
JOBS ?= $(shell nproc 2>/dev/null || echo 2)
RELEASE = $(BUILD)/release
PREFIX ?= /usr/local

.PHONY: all deps run test check long bench install format clean

all:
	cmake -S . -B "$(RELEASE)" -DCMAKE_BUILD_TYPE=RelWithDebInfo \
	      -DCMAKE_INSTALL_PREFIX="$(PREFIX)" -DTENMAP_TESTS=OFF -DTENMAP_BENCH=OFF
	cmake --build "$(RELEASE)" -j $(JOBS)

# Installs what building and testing need with apt, as root; otherwise prints what to install.
deps:
	@sh scripts/deps.sh

# Builds, writes a small demo model into the build folder, opens it, and tours the tool.
run: deps all
	"$(RELEASE)/examples/demo" "$(RELEASE)/demo.safetensors"
	"$(RELEASE)/examples/show" "$(RELEASE)/demo.safetensors"
	@sh scripts/tour.sh "$(RELEASE)/tool/tenmap" "$(RELEASE)/demo.safetensors"

test: deps
	cmake -S . -B "$(BUILD)/test" -DCMAKE_BUILD_TYPE=RelWithDebInfo $(CMAKE_OPTIONS)
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

install: all
	cmake --install "$(RELEASE)"

format:
	@sh scripts/format.sh

clean:
	rm -rf "$(BUILD)"
