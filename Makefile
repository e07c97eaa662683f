# Everything that developers and CI run. `make` alone lists the targets.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
LDFLAGS := -s -w -X main.built=$(VERSION)
# grpc is in the Google client of package snapshot: these tags exclude its
# tracing and the dependencies of that, which are half of the program.
TAGS := grpcnotrace,disable_grpc_modules
GOBUILD := CGO_ENABLED=0 go build -tags $(TAGS) -trimpath -ldflags '$(LDFLAGS)'

# The linter is a separate module, so that its dependencies are never ours. It
# takes minutes to build, so its binary is kept by version.
LINT_VERSION := $(shell awk '$$1 == "github.com/golangci/golangci-lint/v2" { print $$2 }' tools/lint/go.mod)
LINT := $(CURDIR)/bin/tools/golangci-lint-$(LINT_VERSION)

# The same holds for the S3 server that the tests of the S3 sink need.
S3_VERSION := $(shell awk '/versity\/versitygw / { print $$NF == "indirect" ? $$(NF-2) : $$NF }' tools/s3/go.mod)
S3 := $(CURDIR)/bin/tools/versitygw-$(S3_VERSION)

# And the emulator of Google Cloud Storage that those of the gcs sink need.
GCS_VERSION := $(shell awk '/fsouza\/fake-gcs-server / { print $$NF == "indirect" ? $$(NF-2) : $$NF }' tools/gcs/go.mod)
GCS := $(CURDIR)/bin/tools/fake-gcs-server-$(GCS_VERSION)

# And Helm, with which the chart is rendered and tested.
HELM_VERSION := $(shell awk '/helm.sh\/helm\/v3 / { print $$NF == "indirect" ? $$(NF-2) : $$NF }' tools/helm/go.mod)
HELM := $(CURDIR)/bin/tools/helm-$(HELM_VERSION)

# And the validator and the generator that the OpenAPI document is tested with.
VALIDATE_VERSION := $(shell awk '/pb33f\/libopenapi-validator / { print $$NF == "indirect" ? $$(NF-2) : $$NF }' tools/openapi/go.mod)
VALIDATE := $(CURDIR)/bin/tools/openapi-validate-$(VALIDATE_VERSION)
CODEGEN_VERSION := $(shell awk '/oapi-codegen\/oapi-codegen\/v2 / { print $$NF == "indirect" ? $$(NF-2) : $$NF }' tools/openapi/go.mod)
CODEGEN := $(CURDIR)/bin/tools/oapi-codegen-$(CODEGEN_VERSION)

# And promtool, with which the alert rules are tested.
PROMTOOL_VERSION := $(shell awk '/prometheus\/prometheus v/ { print $$NF == "indirect" ? $$(NF-2) : $$NF }' tools/prometheus/go.mod)
PROMTOOL := $(CURDIR)/bin/tools/promtool-$(PROMTOOL_VERSION)

# And gVisor's runsc, under which the suite runs on an engine of its own.
GVISOR_VERSION := $(shell awk '/gvisor.dev\/gvisor / { print $$NF == "indirect" ? $$(NF-2) : $$NF }' tools/gvisor/go.mod)
GVISOR := $(CURDIR)/bin/tools/runsc-$(GVISOR_VERSION)

# And what lists the modules of the programs of a release.
SBOM_VERSION := $(shell awk '/CycloneDX\/cyclonedx-gomod / { print $$NF == "indirect" ? $$(NF-2) : $$NF }' tools/sbom/go.mod)
SBOM := $(CURDIR)/bin/tools/cyclonedx-gomod-$(SBOM_VERSION)

# And the compiler of the client in TypeScript, by its lock file.
TYPESCRIPT := clients/typescript/node_modules/.package-lock.json

# The name of the image that `make image` writes.
IMAGE ?= hostler:$(VERSION)

FUZZTIME ?= 20s
BENCHTIME ?= 1s
SOAK ?= 10m

.PHONY: help
help: ## show this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: build
build: ## make the static programs bin/hostler and bin/hostler-shim
	@mkdir -p bin
	$(GOBUILD) -o bin/hostler-shim ./cmd/hostler-shim
	$(GOBUILD) -o bin/hostler ./cmd/hostler

.PHONY: image
image: build ## the container image as bin/hostler-image.tar, without an engine; IMAGE names it
	go run ./deploy/image -o bin/hostler-image.tar -tag '$(IMAGE)' bin/hostler bin/hostler-shim

# Servers run on Linux only: elsewhere there is the command line.
RELEASES := linux-amd64 linux-arm64 darwin-amd64 darwin-arm64 windows-amd64 windows-arm64

.PHONY: release
release: $(SBOM) $(RELEASES:%=release-%) ## archives for all systems in bin/release, with checksums and lists of their modules
	go run ./deploy/release -o bin/release -version '$(VERSION)' -time "$$(git log -1 --format=%ct)" \
	    -sbom $(SBOM) -programs bin/programs -linux deploy/systemd/hostler.service LICENSE README.md CHANGELOG.md docs/installing.md

.PHONY: $(RELEASES:%=release-%)
$(RELEASES:%=release-%): release-%:
	@rm -rf bin/programs/$* && mkdir -p bin/programs/$*
	GOOS=$(firstword $(subst -, ,$*)) GOARCH=$(lastword $(subst -, ,$*)) $(GOBUILD) -o bin/programs/$*/ ./cmd/hostler
	$(if $(filter linux-%,$*),GOOS=linux GOARCH=$(lastword $(subst -, ,$*)) $(GOBUILD) -o bin/programs/$*/ ./cmd/hostler-shim)

$(SBOM): tools/sbom/go.mod
	@mkdir -p $(dir $@)
	@echo "building cyclonedx-gomod $(SBOM_VERSION), once"
	cd tools/sbom && CGO_ENABLED=0 go build -trimpath -ldflags '-s -w' -o $@.part github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod
	@mv $@.part $@ && touch $@

.PHONY: manifests
manifests: $(HELM) ## generate deploy/manifests from the chart
	go test -count=1 ./e2e/kubernetes -run TestManifests -update

.PHONY: examples
examples: ## run the example services on the process backend; skips those whose program is missing, and names it
	go test ./e2e -run 'TestExampleServices' -count=1 -v

.PHONY: demo
demo: build ## show the lifecycle of a container; cleans up after itself
	bin/hostler demo

.PHONY: check
check: static build ## all static checks: format, vet, lint, modules, build

.PHONY: static
static: tidy vet lint cross # those that leave bin as it is

.PHONY: tidy
tidy: # formatted, and go.mod as the imports need it
	@out=$$(gofmt -l $$(git ls-files --cached --others --exclude-standard '*.go')); \
	if [ -n "$$out" ]; then echo "not formatted (make fmt):"; echo "$$out"; exit 1; fi
	go mod tidy -diff
	go mod verify

.PHONY: vet
vet: # go vet
	go vet ./...

.PHONY: cross
cross: # the command line builds where no server runs
	GOOS=darwin GOARCH=arm64 CGO_ENABLED=0 go build -o /dev/null ./cmd/hostler
	GOOS=windows GOARCH=amd64 CGO_ENABLED=0 go build -o /dev/null ./cmd/hostler

.PHONY: lint
lint: $(LINT) ## run the linter; builds it the first time, which takes minutes
	$(LINT) run ./...

$(LINT): tools/lint/go.mod
	@mkdir -p $(dir $@)
	@echo "building golangci-lint $(LINT_VERSION), once"
	cd tools/lint && CGO_ENABLED=0 go build -trimpath -ldflags '-s -w' -o $@.part github.com/golangci/golangci-lint/v2/cmd/golangci-lint
	@mv $@.part $@ && touch $@

.PHONY: lint-tool
lint-tool: $(LINT) # build the linter and do not run it

.PHONY: s3-tool
s3-tool: $(S3) ## build the S3 server that tests of the S3 sink run against; takes minutes

$(S3): tools/s3/go.mod
	@mkdir -p $(dir $@)
	@echo "building versitygw $(S3_VERSION), once"
	cd tools/s3 && CGO_ENABLED=0 go build -trimpath -ldflags '-s -w' -o $@.part github.com/versity/versitygw/cmd/versitygw
	@mv $@.part $@ && touch $@

.PHONY: gcs-tool
gcs-tool: $(GCS) ## build the Google Cloud Storage that tests of the gcs sink run against; takes minutes

$(GCS): tools/gcs/go.mod
	@mkdir -p $(dir $@)
	@echo "building fake-gcs-server $(GCS_VERSION), once"
	cd tools/gcs && CGO_ENABLED=0 go build -trimpath -ldflags '-s -w' -o $@.part github.com/fsouza/fake-gcs-server
	@mv $@.part $@ && touch $@

.PHONY: openapi-tool
openapi-tool: $(VALIDATE) $(CODEGEN) ## build what the OpenAPI document is tested with; takes minutes

$(VALIDATE): tools/openapi/go.mod
	@mkdir -p $(dir $@)
	@echo "building openapi-validate $(VALIDATE_VERSION), once"
	cd tools/openapi && CGO_ENABLED=0 go build -trimpath -ldflags '-s -w' -o $@.part github.com/pb33f/libopenapi-validator/cmd/validate
	@mv $@.part $@ && touch $@

$(CODEGEN): tools/openapi/go.mod
	@mkdir -p $(dir $@)
	@echo "building oapi-codegen $(CODEGEN_VERSION), once"
	cd tools/openapi && CGO_ENABLED=0 go build -trimpath -ldflags '-s -w' -o $@.part github.com/oapi-codegen/oapi-codegen/v2/cmd/oapi-codegen
	@mv $@.part $@ && touch $@

.PHONY: clients-tool
clients-tool: $(TYPESCRIPT) ## compile the client in TypeScript; needs Node.js 20 and npm
	cd clients/typescript && node node_modules/typescript/bin/tsc -p .

$(TYPESCRIPT): clients/typescript/package-lock.json
	cd clients/typescript && npm ci --silent --ignore-scripts --no-audit --no-fund
	@touch $@

.PHONY: helm-tool
helm-tool: $(HELM) ## build Helm, with which the chart is tested; takes minutes

$(HELM): tools/helm/go.mod
	@mkdir -p $(dir $@)
	@echo "building helm $(HELM_VERSION), once"
	cd tools/helm && CGO_ENABLED=0 go build -trimpath -ldflags '-s -w' -o $@.part helm.sh/helm/v3/cmd/helm
	@mv $@.part $@ && touch $@

.PHONY: promtool-tool
promtool-tool: $(PROMTOOL) ## build promtool, with which the alert rules are tested; takes minutes

# The tag leaves out the discovery of targets at cloud providers: a fifth of the
# packages, and most of the modules.
$(PROMTOOL): tools/prometheus/go.mod
	@mkdir -p $(dir $@)
	@echo "building promtool $(PROMTOOL_VERSION), once"
	cd tools/prometheus && CGO_ENABLED=0 go build -tags remove_all_sd,$(TAGS) -trimpath -ldflags '-s -w' -o $@.part github.com/prometheus/prometheus/cmd/promtool
	@mv $@.part $@ && touch $@

.PHONY: gvisor-tool
gvisor-tool: $(GVISOR) ## build gVisor's runsc, under which tests run on Docker; takes minutes

$(GVISOR): tools/gvisor/go.mod
	@mkdir -p $(dir $@)
	@echo "building runsc $(GVISOR_VERSION), once"
	cd tools/gvisor && CGO_ENABLED=0 go build -trimpath -ldflags '-s -w' -o $@.part gvisor.dev/gvisor/runsc
	@mv $@.part $@ && touch $@

.PHONY: gvisor-path
gvisor-path: # where runsc is, once it is built
	@echo $(GVISOR)

.PHONY: test
test: ## all tests, with the race detector; REQUIRE=docker fails where an engine is missing
	@.ci/go-test -race ./...

.PHONY: e2e
e2e: ## only the tests that drive the real program
	@.ci/go-test -count=1 ./e2e/...

.PHONY: cluster-build
cluster-build: ## build the Kubernetes node for tests; minutes the first time
	@.ci/cluster build

.PHONY: cluster-up
cluster-up: ## start a Kubernetes node on this machine, as root; prints the path of its kubeconfig
	@.ci/cluster up

.PHONY: cluster-down
cluster-down: ## stop that node and remove all of it
	@.ci/cluster down

.PHONY: cluster-check
cluster-check: $(LINT) # the node's own module: vet, lint, tests
	cd e2e/cluster && go vet . ./pause && $(LINT) run . ./pause && go test . ./pause

.PHONY: soak
soak: ## misbehaving tenants and failures on a real engine for SOAK (10m); SOAK_SEED repeats the choices of a run
	REQUIRE=docker SOAK=$(SOAK) go test -count=1 -v -timeout 24h ./e2e/soak

.PHONY: hostile
hostile: ## every attack of a hostile tenant alone, as every user, on every root filesystem and backend; hours, but HOSTILE_WAY=docker/root/read-only and HOSTILE_ONLY=PATTERN choose
	$(if $(HOSTILE_WAY)$(HOSTILE_ONLY),,rm -rf bin/hostile)
	HOSTILE=alone HOSTILE_WAY='$(HOSTILE_WAY)' HOSTILE_ONLY='$(HOSTILE_ONLY)' HOSTILE_OUT=$(CURDIR)/bin/hostile go test -count=1 -v -timeout 24h -p 1 -run TestHostile ./runtime/docker ./runtime/kubernetes; \
	status=$$?; go run ./runtime/runtimetest/attacktable bin/hostile/*.json; exit $$status

.PHONY: mutants
mutants: ## change the program in one place at a time: a test has to fail for each; MUTANTS is a pattern; an hour
	@go run ./internal/mutants '$(MUTANTS)'

.PHONY: bench-once
bench-once: # run each benchmark that takes seconds once, to check that it works
	go test -run '^$$' -bench . -benchtime 1x ./store ./release ./runtime/...

.PHONY: cover
cover: ## coverage of all packages, in coverage.txt
	go test -covermode=atomic -coverpkg=./... -coverprofile=coverage.txt ./...
	go tool cover -func=coverage.txt | tail -n 1

.PHONY: bench
bench: ## all benchmarks; raw results in benchmarks/raw, ratios on the screen
	@.ci/bench $(BENCHTIME)

.PHONY: fuzz
fuzz: ## every fuzz target for FUZZTIME (20s)
	@.ci/fuzz $(FUZZTIME)

.PHONY: fmt
fmt: ## format the code
	gofmt -w $$(git ls-files --cached --others --exclude-standard '*.go')

.PHONY: clean
clean: ## remove what was built; the linter stays
	rm -f bin/hostler bin/hostler-shim bin/hostler-image.tar coverage.txt
	go clean -testcache
