# `make` lists the targets with a comment after ##.
.DEFAULT_GOAL := help
SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c

VERSION      ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
IMAGE        ?= orrery:$(subst /,-,$(VERSION))
KUBE_VERSION := 1.37.2
PKG          := k8s.io/component-base/version
LDFLAGS      := -s -w -X $(PKG).gitVersion=v$(KUBE_VERSION)+orrery.$(subst /,-,$(VERSION)) -X $(PKG).gitMajor=1 -X $(PKG).gitMinor=37 \
                -X $(PKG).gitCommit=$(shell git rev-parse HEAD 2>/dev/null) -X $(PKG).gitTreeState=clean
export CGO_ENABLED ?= 0
# Only the daemon is built with the profile: it makes the compiler build all dependencies once more, which tests can do without.
export GOFLAGS := $(strip $(GOFLAGS) -buildvcs=false -trimpath -pgo=off)
MODULES := . hack/localcluster test/scenarios test/conformance test/bench test/faults test/parity
BIN     := bin
# The generator of deepcopy functions and CRDs is a tool in its own module. This prints the path of its binary.
CONTROLLER_GEN := go -C hack/codegen tool -n sigs.k8s.io/controller-tools/cmd/controller-gen

.PHONY: help build image realnode test-realnode run test test-versions unit scenarios scenarios-against conformance conformance-fast conformance-baseline lint vulncheck generate verify bench bench-failover profile clean localcluster faults parity

help: ## list the targets
	@awk -F':.*## ' '/^[a-z-]+:.*## / {printf "%-21s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: ## build bin/orrery, a static binary
	go build -pgo=auto -ldflags '$(LDFLAGS)' -o $(BIN)/orrery ./cmd/orrery

localcluster:
	cd hack/localcluster && go build -o ../../$(BIN)/localcluster .

image: build ## pack bin/orrery as a container image without a container engine: _output/image/orrery.tar, named $IMAGE
	go run ./hack/image -binary $(BIN)/orrery -name '$(IMAGE)' -entry orrery,kube-controller-manager -o _output/image/orrery.tar

realnode: build localcluster
	go build -o $(BIN)/image ./hack/image
	go build -o $(BIN)/realnode ./hack/realnode

test-realnode: realnode ## install Orrery on a real control-plane node as docs/install.md says, and go back; needs root
	REALNODE_BIN=$(CURDIR)/$(BIN)/realnode go test -count=1 -v -run TestControlPlaneNode ./hack/realnode

run: build localcluster ## start a real control plane with Orrery on this machine, and roll out an example; Ctrl-C stops it
	$(BIN)/localcluster demo --orrery-bin=$(BIN)/orrery --cm-arg='--controllers=*,nodepool-controller' --manifest manifests/crds \
	  --manifest manifests/nodepool/rbac.yaml --manifest manifests/nodepool/samples/zone.yaml

test: unit scenarios ## run all tests: unit tests, then the scenarios against a real API server

unit:
	go test ./...
	cd hack/localcluster && go test ./...
	cd test/conformance && go test ./...
	cd test/faults && go test ./...
	cd test/parity && go test ./...

scenarios: build localcluster
	$(BIN)/localcluster build
	ORRERY_BIN=$(CURDIR)/$(BIN)/orrery hack/scenarios.sh -parallel 4 -timeout 30m

scenarios-against: build ## run the scenarios that only need an API server on the cluster of $KUBECONFIG, under any manager
	@test -n "$(KUBECONFIG)" || { echo "usage: make scenarios-against KUBECONFIG=FILE" >&2; exit 2; }
	cd test/scenarios && SCENARIOS_KUBECONFIG='$(abspath $(KUBECONFIG))' ORRERY_BIN=$(CURDIR)/$(BIN)/orrery go test -count=1 -parallel 4 -timeout 30m -v $(SCENARIOS) . \
	  2>&1 | grep -E '^(=== RUN|    --- |--- |FAIL|ok|panic)|_test.go' | grep -v '^=== RUN'

test-versions: build localcluster ## run the daemon against older releases of kube-apiserver; building each takes minutes
	$(BIN)/localcluster build
	cd test/scenarios && VERSIONS=1 ORRERY_BIN=$(CURDIR)/$(BIN)/orrery go test -count=1 -timeout 60m -v -run TestOlderAPIServers .

CONFORM = cd test/conformance && go run . -orrery=$(CURDIR)/$(BIN)/orrery -out=$(CURDIR)/_output/conformance \
          $(if $(filter real,$(NODE)),-real -realnode=$(CURDIR)/$(BIN)/realnode)
CONFORM_NEEDS = build $(if $(filter real,$(NODE)),realnode)

conformance: $(CONFORM_NEEDS) ## run Kubernetes' own specs with kube-controller-manager, then with Orrery; FOCUS=regexp, ALL=1, NODE=real
	$(CONFORM) $(if $(FOCUS),-focus='$(FOCUS)') $(if $(ALL),-all) $(CONFORMANCE)

conformance-fast: $(CONFORM_NEEDS) ## run the fast specs with Orrery only; those that pass with upstream must pass
	$(CONFORM) -fast $(if $(FOCUS),-focus='$(FOCUS)') $(CONFORMANCE)

conformance-baseline: $(CONFORM_NEEDS) ## run all specs with upstream, and rewrite the list of those that pass
	$(CONFORM) -baseline $(CONFORMANCE)

# Reports calls of vulnerable code. The data comes from https://vuln.go.dev or $GOVULNDB.
GOVULNCHECK = golang.org/x/vuln/cmd/govulncheck@v1.9.0
vulncheck: ## look for calls of vulnerable code; needs https://vuln.go.dev, or a copy in $GOVULNDB
	@dir=$$(mktemp -d) && trap 'rm -rf "$$dir"' EXIT && GOFLAGS= GOBIN="$$dir" go install $(GOVULNCHECK) && \
	for m in $(MODULES); do echo "vulncheck $$m"; (cd $$m && "$$dir/govulncheck" ./...) || exit 1; done

lint: ## gofmt, vet and staticcheck in every module, and shellcheck where it is installed
	@files=$$(gofmt -l .) && { [ -z "$$files" ] || { printf 'gofmt: these files are not formatted:\n%s\n' "$$files" >&2; exit 1; }; }
	@for m in $(MODULES); do echo "vet and staticcheck $$m"; \
	  (cd $$m && go vet ./... && go -C $(CURDIR) tool -n honnef.co/go/tools/cmd/staticcheck >/dev/null && "$$(go -C $(CURDIR) tool -n honnef.co/go/tools/cmd/staticcheck)" ./...) || exit 1; done
	@if command -v shellcheck >/dev/null; then echo "shellcheck"; shellcheck -x $$(git ls-files '*.sh' .ci/run); \
	else echo "shellcheck is not installed; shell scripts are not checked"; fi

generate: build ## regenerate code, manifests and parts of the documentation
	"$$($(CONTROLLER_GEN))" object crd paths=./api/... output:crd:dir=manifests/crds
	go run ./hack/generate $(BIN)/orrery

verify: build ## fail if a generated file is out of date, or go.mod is not tidy
	go run ./hack/generate -check $(BIN)/orrery
	@fresh=$$(mktemp -d) && trap 'rm -rf "$$fresh"' EXIT && \
	  "$$($(CONTROLLER_GEN))" object crd paths=./api/... output:crd:dir="$$fresh/crds" output:object:dir="$$fresh" && \
	  diff -u api/nodes/v1alpha1/zz_generated.deepcopy.go "$$fresh/zz_generated.deepcopy.go" && diff -ru manifests/crds "$$fresh/crds" || \
	  { echo "generated code or manifests are out of date; run make generate" >&2; exit 1; }
	@for m in $(MODULES) hack/codegen; do (cd $$m && go mod tidy -diff) || { echo "$$m/go.mod is not tidy" >&2; exit 1; }; done

bench: build localcluster ## compare with kube-controller-manager, in pairs on the same cluster
	$(BIN)/localcluster build
	cd test/bench && go run . -orrery=$(CURDIR)/$(BIN)/orrery $(BENCH)

bench-failover: build localcluster ## measure the time from a leader's end to the next one's first write, ten times each
	$(BIN)/localcluster build
	cd test/scenarios && ORRERY_ROUNDS=10 ORRERY_BIN=$(CURDIR)/$(BIN)/orrery go test -count=1 -parallel 1 -timeout 30m -v -run 'TestFailOver|TestRenewals|TestWarmStandby' .

profile: build localcluster ## renew the profile by which the compiler optimizes orrery
	$(BIN)/localcluster build
	rm -rf $(BIN)/profiles && mkdir -p $(BIN)/profiles
	cd test/bench && go run . -orrery=$(CURDIR)/$(BIN)/orrery -managers=orrery -profiles=$(CURDIR)/$(BIN)/profiles -sizes 20x50 -jobs 10x100
	go tool pprof -proto -output=cmd/orrery/default.pgo $(BIN)/profiles/orrery-*.pprof
	go run ./hack/profile cmd/orrery/default.pgo

DURATION ?= 10m
SEED     ?= $(shell date +%s)
faults: build localcluster ## disturb the daemon and its connections while workloads change, and check its invariants; DURATION, SEED
	$(BIN)/localcluster build
	cd test/faults && go test ./... && go run . -orrery=$(CURDIR)/$(BIN)/orrery -duration=$(DURATION) -seed=$(SEED) $(FAULTS)

PROGRAMS ?= 60
parity: build localcluster ## give the same random input to Orrery and to kube-controller-manager, and compare all objects; PROGRAMS, SEED
	$(BIN)/localcluster build
	cd test/parity && go run . -orrery=$(CURDIR)/$(BIN)/orrery -programs=$(PROGRAMS) -seed=$(SEED) $(PARITY)

clean: ## remove what the targets built
	rm -rf $(BIN) _output
