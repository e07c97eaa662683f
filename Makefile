# Everything that developers and CI run. `make` alone lists the targets.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
LDFLAGS := -s -w -X main.built=$(VERSION)
# grpc is in the Google client of package snapshot: these tags exclude its
# tracing and the dependencies of that, which are half of the program.
# A comma in the arguments of a call.
, := ,
TAGS := grpcnotrace,disable_grpc_modules
GOBUILD := CGO_ENABLED=0 go build -tags $(TAGS) -trimpath -ldflags '$(LDFLAGS)'

# Tools are modules of their own, so that their dependencies are never ours. They
# take minutes to build, so the programs are kept by version, for all clones of
# this user. Another version replaces a program.
TOOLS := $(CURDIR)/bin/tools
KEPT := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/hostler/tools
# version_of is the version of module $(2) in tools/$(1).
version_of = $(shell awk -v m='$(2)' '{ for (i = 1; i < NF; i++) if ($$i == m) { print $$(i+1); exit } }' tools/$(1)/go.mod)

# tool defines a program: $(1) its name, $(2) the folder below tools, $(3) its
# module, $(4) its package in that module, $(5) flags of the build.
define tool
tool-$(1) := $(TOOLS)/$(1)-$(call version_of,$(2),$(3))
$$(tool-$(1)): | $(TOOLS)
	@echo "building $$(notdir $$@), once"
	cd tools/$(2) && CGO_ENABLED=0 go build $(5) -trimpath -ldflags '-s -w' -o $$@.part $(3)$(4)
	@find $(TOOLS)/ -maxdepth 1 -name '$(1)-v*' ! -name '*.part' -delete
	@mv $$@.part $$@ && touch $$@
endef
$(eval $(call tool,golangci-lint,lint,github.com/golangci/golangci-lint/v2,/cmd/golangci-lint))
$(eval $(call tool,versitygw,s3,github.com/versity/versitygw,/cmd/versitygw))
$(eval $(call tool,fake-gcs-server,gcs,github.com/fsouza/fake-gcs-server))
$(eval $(call tool,helm,helm,helm.sh/helm/v3,/cmd/helm))
$(eval $(call tool,openapi-validate,openapi,github.com/pb33f/libopenapi-validator,/cmd/validate))
$(eval $(call tool,oapi-codegen,openapi,github.com/oapi-codegen/oapi-codegen/v2,/cmd/oapi-codegen))
$(eval $(call tool,runsc,gvisor,gvisor.dev/gvisor,/runsc))
$(eval $(call tool,cyclonedx-gomod,sbom,github.com/CycloneDX/cyclonedx-gomod,/cmd/cyclonedx-gomod))
# The tag leaves out the discovery of targets at cloud providers: a fifth of the
# packages, and most of the modules.
$(eval $(call tool,promtool,prometheus,github.com/prometheus/prometheus,/cmd/promtool,-tags remove_all_sd$(,)$(TAGS)))

$(TOOLS):
	@mkdir -p bin $(KEPT) && { [ -e $@ ] || ln -sn $(KEPT) $@; }

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
release: $(tool-cyclonedx-gomod) $(RELEASES:%=release-%) ## archives for all systems in bin/release, with checksums and lists of their modules
	go run ./deploy/release -o bin/release -version '$(VERSION)' -time "$$(git log -1 --format=%ct)" \
	    -sbom $(tool-cyclonedx-gomod) -programs bin/programs -linux deploy/systemd/hostler.service LICENSE README.md CHANGELOG.md docs/installing.md

.PHONY: $(RELEASES:%=release-%)
$(RELEASES:%=release-%): release-%:
	@rm -rf bin/programs/$* && mkdir -p bin/programs/$*
	GOOS=$(firstword $(subst -, ,$*)) GOARCH=$(lastword $(subst -, ,$*)) $(GOBUILD) -o bin/programs/$*/ ./cmd/hostler
	$(if $(filter linux-%,$*),GOOS=linux GOARCH=$(lastword $(subst -, ,$*)) $(GOBUILD) -o bin/programs/$*/ ./cmd/hostler-shim)

.PHONY: manifests
manifests: $(tool-helm) ## generate deploy/manifests from the chart
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
	CGO_ENABLED=0 go vet -trimpath -tags $(TAGS) ./...

.PHONY: tags
tags: # the tags of all builds
	@echo $(TAGS)

.PHONY: cross
cross: # the command line builds where no server runs
	GOOS=darwin GOARCH=arm64 CGO_ENABLED=0 go build -o /dev/null ./cmd/hostler
	GOOS=windows GOARCH=amd64 CGO_ENABLED=0 go build -o /dev/null ./cmd/hostler

.PHONY: lint
lint: $(tool-golangci-lint) ## run the linter; builds it the first time, which takes minutes
	$(tool-golangci-lint) run ./...

.PHONY: lint-tool
lint-tool: $(tool-golangci-lint) # build the linter and do not run it

.PHONY: s3-tool
s3-tool: $(tool-versitygw) ## build the S3 server that tests of the S3 sink run against; takes minutes

.PHONY: gcs-tool
gcs-tool: $(tool-fake-gcs-server) ## build the Google Cloud Storage that tests of the gcs sink run against; takes minutes

.PHONY: openapi-tool
openapi-tool: $(tool-openapi-validate) $(tool-oapi-codegen) ## build what the OpenAPI document is tested with; takes minutes

.PHONY: clients-tool
clients-tool: $(TYPESCRIPT) ## compile the client in TypeScript; needs Node.js 20 and npm
	cd clients/typescript && node node_modules/typescript/bin/tsc -p .

$(TYPESCRIPT): clients/typescript/package-lock.json
	cd clients/typescript && npm ci --silent --ignore-scripts --no-audit --no-fund
	@touch $@

.PHONY: helm-tool
helm-tool: $(tool-helm) ## build Helm, with which the chart is tested; takes minutes

.PHONY: promtool-tool
promtool-tool: $(tool-promtool) ## build promtool, with which the alert rules are tested; takes minutes

.PHONY: gvisor-tool
gvisor-tool: $(tool-runsc) ## build gVisor's runsc, under which tests run on Docker; takes minutes

.PHONY: gvisor-path
gvisor-path: # where runsc is, once it is built
	@echo $(tool-runsc)

# Tests are built as the programs are, so that nothing is compiled twice, and
# with RACE=1 with the race detector.
SUITE := @go run ./internal/suite run -tags $(TAGS) $(if $(RACE),-race) $(TESTFLAGS)

# These packages take the longest, so they begin first.
SLOWEST := ./snapshot ./runtime/process ./api

.PHONY: test
test: ## all tests that need no engine, in their quick forms
	@TIER=$${TIER:-short} $(SUITE:@%=%) -engines=false $(SLOWEST) ./...

.PHONY: test-engines
test-engines: ## all tests that this machine can run; REQUIRE=docker fails where an engine is missing
	$(SUITE) ./...

.PHONY: test-full
test-full: ## the full suite, PART=1 to 4, as root on Debian: an hour each; adds a line to .ci/ledger.jsonl
	@.ci/full $(PART)

.PHONY: e2e
e2e: ## only the tests that drive the real program
	$(SUITE) -count=1 ./e2e/...

.PHONY: cluster-build
cluster-build: ## build the Kubernetes node for tests; minutes the first time
	@.ci/cluster build

.PHONY: cluster-up
cluster-up: ## start a Kubernetes node on this machine, as root; prints the path of its kubeconfig
	@.ci/cluster up

.PHONY: cluster-down
cluster-down: ## stop that node and remove all of it
	@.ci/cluster down

.PHONY: cluster-test
cluster-test: # the tests of the node's own module
	cd e2e/cluster && go vet . ./pause && go test . ./pause

.PHONY: cluster-check
cluster-check: cluster-test $(tool-golangci-lint)
	cd e2e/cluster && $(tool-golangci-lint) run . ./pause

.PHONY: soak
soak: ## misbehaving tenants and failures on a real engine for SOAK (10m); SOAK_SEED repeats the choices of a run
	REQUIRE=docker SOAK=$(SOAK) go test -count=1 -v -timeout 24h ./e2e/soak

.PHONY: hostile
hostile: ## every attack of a hostile tenant alone, as every user, on every root filesystem and backend; hours, but HOSTILE_WAY=docker/root/read-only and HOSTILE_ONLY=PATTERN choose
	$(if $(HOSTILE_WAY)$(HOSTILE_ONLY),,rm -rf bin/hostile)
	HOSTILE=alone HOSTILE_WAY='$(HOSTILE_WAY)' HOSTILE_ONLY='$(HOSTILE_ONLY)' HOSTILE_OUT=$(CURDIR)/bin/hostile go test -count=1 -v -timeout 24h -p 1 -run TestHostile ./runtime/docker ./runtime/kubernetes; \
	status=$$?; go run ./runtime/runtimetest/attacktable bin/hostile/*.json; exit $$status

.PHONY: mutants
mutants: ## change checks whose loss would be silent, one at a time: a test has to fail for each; MUTANTS is a pattern; half an hour
	@GOFLAGS='-trimpath -tags=$(TAGS)' go run ./internal/mutants '$(MUTANTS)'

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
