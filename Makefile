# Go and make are all that "make run" and "make test" need. "make help" lists
# the rest.

GO ?= go

# Builds with the tag cuda find our cuda.h and libcuda.so here.
CUDA_ENV := CGO_ENABLED=1 CGO_CFLAGS="-g -O2 -I$(CURDIR)/driver/cuda/include" CGO_LDFLAGS="-L$(CURDIR)/driver/cuda/link"

# build and run use CUDA where there is a C compiler to build it with and a
# driver library to run it with.
CC_FOUND := $(shell command -v gcc 2>/dev/null)
DRIVER_FOUND := $(shell { ldconfig -p || /sbin/ldconfig -p; } 2>/dev/null | grep -m 1 -o 'libcuda\.so\.1') \
	$(wildcard /usr/lib/wsl/lib/libcuda.so.1 /usr/local/nvidia/lib64/libcuda.so.1)
ifneq ($(and $(CC_FOUND),$(strip $(DRIVER_FOUND))),)
BUILD_ENV := $(CUDA_ENV)
TAGS := -tags cuda
else
BUILD_ENV := CGO_ENABLED=0
endif

.PHONY: help
help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: run
run: build ## run the primitives on real files and print sizes and rates
	@bin/ptxrun info
	@echo
	@bin/tour testdata

.PHONY: build
build: ## bin/ptxrun, with CUDA where a C compiler and a driver are found
	$(BUILD_ENV) $(GO) build $(TAGS) -o bin/ ./cmd/ptxrun ./examples/tour

.PHONY: test
test: ## all tests that need no C compiler
	CGO_ENABLED=0 $(GO) test ./...

.PHONY: test-cuda
test-cuda: ## all tests with the tag cuda; needs gcc, a GPU is optional
	$(CUDA_ENV) $(GO) test $(TESTFLAGS) -tags cuda ./...

.PHONY: race
race: ## tests under the race detector, less those of huge inputs and, of the root's, those on the emulator, which has its own; needs gcc
	PTXRUN_TEST_DEVICES=cpu CGO_ENABLED=1 $(GO) test -race -short ./...

.PHONY: vet
vet: ## go vet; with the tag cuda too where gcc is found
	CGO_ENABLED=0 $(GO) vet ./...
ifneq ($(CC_FOUND),)
	$(CUDA_ENV) $(GO) vet -tags cuda ./...
endif

.PHONY: fmt-check
fmt-check: ## fail if gofmt would change a file
	@files=$$(gofmt -l .) && if [ -n "$$files" ]; then echo "gofmt -w these:" $$files; exit 1; fi

.PHONY: ptx
ptx: ## compile the CUDA sources to PTX; needs clang-19
	$(GO) generate ./...
	cd bench && $(GO) generate ./...

.PHONY: check-ptx
check-ptx: ## fail if the committed PTX is not what the sources give; needs clang-19
	$(GO) run ./internal/ptxgen -check
	@new=$$(mktemp -d) && trap 'rm -r "$$new"' EXIT && \
	for source in examples/operator/range bench/operator/affine examples/aggregation/kernels bench/children/children testdata/halve; do for target in 70 90; do \
		case $$target$$source in 90*aggregation* | 90*children* | 90*halve) continue ;; esac; \
		old=$$source.ptx; [ $$target = 70 ] || old=$${source}_sm_$$target.ptx; \
		made=$$new/$${old##*/}; \
		$(GO) run ./cmd/ptxrun ptx --compiler clang-19 --target sm_$$target -o "$$made" $$source.cu || exit 1; \
		cmp $$old "$$made" || { echo "$$old is not what $$source.cu gives: make ptx"; exit 1; }; \
	done; done

.PHONY: clean
clean: ## remove what build made
	rm -rf bin

BENCH := out/bench

.PHONY: bench-build
bench-build: ## out/bench/bench, with CUDA; it also runs where there is no Go
	cd bench && $(CUDA_ENV) $(GO) build -buildvcs=true -tags cuda -o ../$(BENCH)/bench .

.PHONY: bench
bench: bench-build ## measure the first GPU beside the peers, which nvcc builds
	bench/peers/build.sh $(BENCH) peers
	status=0; $(BENCH)/bench -out $(BENCH)/results.json || status=$$?; \
	$(BENCH)/bench -render $(BENCH)/results.json && exit $$status
