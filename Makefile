# The two commands of the README are `make demo` and `make test`; `make help` lists the rest.
BUILD  ?= build
PRESET ?= dev
# One job per core, but 1.5 GB for each: LibTorch's headers need it.
JOBS   ?= $(shell awk -v cores=$$(nproc) '/^MemAvailable/ {n = int($$2 / 1500000); print n < 1 ? 1 : n < cores ? n : cores}' /proc/meminfo)

CACHE := $(shell tools/setup --print-cache)
export CCACHE_DIR     ?= $(CACHE)/ccache
export CCACHE_MAXSIZE ?= 5G

.NOTPARALLEL:
.PHONY: help setup setup-python setup-tests configure build program install demo test test-isa sanitize tidy bench bench-build soak lint \
        format bundle clean

help:  ## This list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup:  ## Install what a build needs (Debian packages, LibTorch); does nothing twice
	@tools/setup

setup-python:
	@tools/setup --python

# One call for both, so that a user who may not install packages is told all of them at once.
setup-tests:
	@tools/setup --python --lint

configure:
	@tools/configure $(BUILD) $(PRESET)

build: setup  ## Configure and build everything
	@$(MAKE) --no-print-directory configure
	@tools/compile $(BUILD) all $(JOBS)

program: setup  ## Configure and build what users run (bin/wmtp and, where nvcc is, the GPU plugin), no tests
	@$(MAKE) --no-print-directory configure
	@tools/compile $(BUILD) program $(JOBS)

PREFIX ?= $(HOME)/.local
install: program  ## Put wmtp into PREFIX/bin (~/.local/bin), with its libraries in PREFIX/lib/wmtp
	@packaging/install.sh --build $(BUILD) --prefix "$(PREFIX)"

demo: program  ## Set up, build, and train all four stages on a tiny corpus (under 2 minutes after the build)
	@tools/demo $(BUILD)

test: setup-tests build  ## Set up, build, check the sources and run all tests
	@tools/run_tests $(BUILD)

test-isa: setup-python build  ## The tests of numbers under every instruction set this CPU can be limited to (under an hour)
	@tools/isa_matrix $(BUILD) --skip-no-effect

sanitize:  ## Run the tests of what needs no LibTorch under the address, undefined-behaviour and thread sanitizers
	@tools/setup --sanitize
	@tools/sanitize $(JOBS)

tidy:  ## clang-tidy over what needs no LibTorch (slow; FILES="src/wmtp/core/json.cpp" chooses)
	@tools/setup --tidy
	@tools/tidy --jobs $(JOBS) $(FILES)

bench: setup-python build  ## Run the benchmarks (bench/run.py --list names them)
	@$$(tools/setup --print-python) bench/run.py --build $(BUILD) $(BENCH)

bench-build: setup  ## Time a cold build and a one-file rebuild
	@tools/bench_build

SCALE ?= 1
soak: setup-python build  ## The long tier of the fault tests, hours; ONLY="kill-storm power-loss" chooses, SCALE=0.01 shortens
	@tools/soak $(BUILD) $(ONLY) --scale $(SCALE)

lint:  ## The checks of the sources: architecture, names, determinism, sizes, format, paths, Python, shell
	@tools/setup --lint
	@tools/lint

format:  ## Rewrite the sources in the house format
	@tools/setup --lint
	@tools/list_files cxx | xargs clang-format -i

bundle:  ## Make the relocatable folder dist/wmtp-<version>-linux-x86_64 from a release build
	@$(MAKE) --no-print-directory build BUILD=build-release PRESET=release
	@packaging/bundle.sh --build build-release --release

clean:  ## Remove the build folders of this checkout
	@rm -rf build build-* dist
