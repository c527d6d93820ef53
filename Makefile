# Run `make` alone for what there is.

export PATH := $(PATH):$(HOME)/.cargo/bin
target := $(or $(CARGO_TARGET_DIR),target)
# Without root the demo runs as root of a user namespace of its own, which takes no privilege and no configuration.
as_root := $(if $(filter 0,$(shell id -u)),,unshare --user --map-root-user --net --mount)

.DEFAULT_GOAL := help
.PHONY: help demo test build package fresh image lint fmt bench soak endure compat fuzz oldkernel clean

help: ## this list
	@sed -n 's/^\([a-z]*\):.*## /\1 /p' Makefile | while read -r name text; do printf '  make %-9s %s\n' "$$name" "$$text"; done

demo: ## build Millrace and show it forwarding between four hosts (ARGS=splice, ARGS=media, ARGS=translate: those applications)
	@tools/setup demo $(firstword $(ARGS))
	@echo "demo: building (a few minutes the first time)"
	@cargo build --release --quiet --package millrace
	@$(as_root) $(target)/release/millrace demo $(ARGS)

test: ## check formatting and lints, run all tests
	@tools/setup test
	@tools/test

build: ## build target/release/millrace
	@tools/setup build
	@cargo build --release --package millrace
	@echo "build: $(target)/release/millrace"

package: ## build target/package/millrace_VERSION_ARCH.deb: the program, its systemd unit, completions, manual pages, examples
	@tools/setup package
	@cargo build --release --package millrace
	@tools/package

image: package ## build target/package/millrace_VERSION_ARCH.oci.tar, an OCI image of the package, and run the L3 switch in it
	@tools/setup image
	@tools/image

fresh: package ## install the package in a fresh root of Debian, run each application there as its unit does, and purge it
	@tools/setup fresh
	@tools/fresh

lint: ## check formatting and lints only
	@tools/setup test
	@cargo fmt --all --check
	@cargo clippy --workspace --all-targets -- -D warnings

fmt: ## format all Rust files
	@tools/setup test
	@cargo fmt --all

bench: ## run one side-by-side measurement: make bench B=NAME (B=all for all, QUICK=1 for a smoke run)
	@test -n "$(B)" || { echo "bench: say which: make bench B=NAME" >&2; exit 1; }
	@tools/setup bench
	@bench/run $(B) $(ARGS)

soak: ## run the L3 switch for ten minutes under traffic, changes and flapping links (SECONDS=... for another time); APP=translate: a connection for 24 simulated hours (HOURS=...)
	@tools/setup test
ifeq ($(APP),translate)
	@HOURS=$(or $(HOURS),24) cargo test --quiet --package control --test translate -- --ignored --nocapture a_day
else
	@SOAK_SECONDS=$(or $(SECONDS),600) cargo test --release --quiet --package millrace --test soak -- --nocapture
endif

endure: ## run the splicer under very many, held, long and ill-treated connections, and bursts of them (PART=bursts, churn, held, large or links for one)
	@tools/setup test
	@ENDURE=full cargo test --release --quiet --package millrace --test endure -- --nocapture --test-threads=1 $(PART)

compat: ## run the splicer between nginx, Apache and Python, and curl, wrk, ab, httperf, Python, Go and Chromium; the media proxy between GStreamer, and ffmpeg, mpv, GStreamer and curl; streams for curl, wget, ffmpeg, mpv, VLC and GStreamer; have Prometheus read all of them, and Chromium show the web page
	@tools/setup compat
	@cargo test --release --quiet --package millrace --test compat --test media_compat --test translate_compat --test monitoring_compat --test page_compat -- --nocapture --test-threads=1

fuzz: ## fuzz one target: make fuzz T=parser SECONDS=60 (parser, config, packet, control, web, lab, text; of the splicer: head, body, segment, assembly, icmp, neighbour, fragments, splicer; of the media proxy: rtsp, rtcp, recording; of streams for HTTP clients: http)
	@test -n "$(T)" || { echo "fuzz: say which: make fuzz T=NAME" >&2; exit 1; }
	@tools/setup build
	@tools/fuzz $(T) $(or $(SECONDS),60)

oldkernel: ## run the kernel engine's tests on Linux 6.1 in a virtual machine (PROGRAMS=... random programs)
	@tools/setup oldkernel
	@tools/oldkernel $(PROGRAMS)

clean: ## remove everything that was built
	@cargo clean
