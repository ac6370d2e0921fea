# The front door. CMake does the work; packagers call it themselves and never meet this file.

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

# Installs what building and testing need, where apt and root are there; else says what to install.
deps:
	@sh scripts/deps.sh

# Builds, makes a small demo model in the build folder, opens it, and ends in a tour of the tool.
run: deps all
	"$(RELEASE)/examples/demo" "$(RELEASE)/demo.safetensors"
	"$(RELEASE)/examples/show" "$(RELEASE)/demo.safetensors"
	@sh scripts/tour.sh "$(RELEASE)/tool/tenmap" "$(RELEASE)/demo.safetensors"

test: deps
	cmake -S . -B "$(BUILD)/test" -DCMAKE_BUILD_TYPE=RelWithDebInfo $(CMAKE_OPTIONS)
	cmake --build "$(BUILD)/test" -j $(JOBS)
	sh scripts/run-tests.sh "$(BUILD)/test"

# What every change must pass: under an hour on two processors. docs/testing.md has the list.
check:
	bash .ci/run --all

# What takes hours: every F32, a million differential cases, fuzzing, more kills, larger files.
long: deps
	bash scripts/long.sh

# One table per benchmark; see docs/performance.md for what they say.
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
