# Everything that CI does is a recipe here, so that people can do it too.

export RUSTDOCFLAGS := "-D warnings"

# list the recipes
[private]
default:
    @just --list --unsorted

# format, lint, licences and sources of dependencies, documentation
check:
    cargo fmt --check
    cargo clippy --all-targets --all-features --locked -- -D warnings
    "$(hack/tool cargo-deny)" --log-level error check bans licenses sources
    cargo doc --no-deps --locked --quiet

# all tests that need nothing but Rust
test:
    cargo test --locked

# write the expected files of tests/golden and the rule tables anew, and show what changed
golden-update:
    UPDATE_GOLDEN=1 cargo test --quiet --test plan --test repository
    UPDATE_GOLDEN=1 cargo test --quiet -p unit-edit --test golden
    git --no-pager diff --stat -- tests/golden crates/unit-edit/tests/golden docs
    git --no-pager diff -- tests/golden crates/unit-edit/tests/golden docs

# the whole agent against an API that fails at random, with the laws checked after each step (one walk: just walk 0 SEED)
walk steps="100000" seed="":
    SCHEDPATCH_WALK_STEPS={{ steps }} {{ if seed == "" { "" } else { "SCHEDPATCH_WALK_SEED=" + seed } }} \
        cargo test --locked --test agent walk -- --nocapture

# many damaged manifests (more with: just fuzz 5000000 SEED), and a sample judged by the kubelet's own reader
fuzz inputs="1000000" seed="0" sample="10000":
    hack/fuzz {{ inputs }} {{ seed }} {{ sample }}

# many damaged units against the laws, and a sample judged by a real systemd (more with: just unit-fuzz 5000000 SEED)
unit-fuzz inputs="1000000" seed="0" sample="10000":
    UNIT_EDIT_FUZZ={{ inputs }} UNIT_EDIT_SEED={{ seed }} \
        cargo test --locked --profile fuzz -p unit-edit --test fuzz -- --nocapture
    hack/unit-systemd {{ sample }} {{ seed }}

# real schedulers judge what we compose, then the real program on a real cluster (the first time builds Kubernetes; needs root)
e2e: e2e-judge e2e-cluster

# real kube-schedulers judge what we compose (several with: just e2e-judge "v1.36.4 v1.30.4"; built once per machine: 5 minutes each)
e2e-judge versions="v1.36.4":
    SCHEDPATCH_SCHEDULERS="$(hack/testbed/testbed programs --only kube-scheduler {{ versions }})" \
        cargo test --locked --features real-scheduler --test compose real_scheduler -- --nocapture

# the real program on a real cluster (all with: just e2e-cluster --all; some with: just e2e-cluster uid kubeadm; needs root)
e2e-cluster *args:
    hack/e2e {{ args }}

# the same on the newest and the oldest Kubernetes that the test bed has
e2e-matrix *args: (e2e-judge "v1.36.4 v1.30.4")
    hack/e2e --version v1.36.4 {{ args }}
    hack/e2e --version v1.30.4 {{ args }}

# the agent from its chart and image on a real cluster: changes, restarts, failures, kills, the API away, undo (needs root)
e2e-agent *args:
    hack/e2e --suite agent {{ args }}

# the agents from their chart and image on three control planes: one after the other (10 minutes, with --all another 25, needs root)
e2e-fleet *args:
    hack/e2e --suite fleet {{ args }}

# the agent from its chart and image on one, two and three k3s servers (with --all the soak; one bed: just e2e-k3s --nodes 1; needs root)
e2e-k3s *args:
    hack/k3s-e2e {{ args }}

# another scheduler image from its build to its removal on a real cluster, with all that can be wrong with it (10 minutes; needs root)
e2e-image *args:
    hack/image-e2e {{ args }}

# schedpatch-pin on a real cluster: the walk-throughs, both modes, replicas, faults, the chart (10 minutes; --quick: 3; --nodes 3; needs root)
e2e-pin *args:
    hack/pin-e2e {{ args }}

# schedpatch-pin for an hour while pods, labels, nodes, replicas and the API server come and go (needs root)
pin-soak *args:
    hack/pin-soak {{ args }}

# faults planted in schedpatch-pin, one at a time: a test must find each (15 minutes)
pin-faults *words:
    hack/pin-faults {{ words }}

# faults planted in the agent's part of the rollout: a test must find each
rollout-faults *words:
    hack/rollout-faults {{ words }}

# the rollout against its goals, on a three-node bed whose agents the chart installed (needs root)
rollout-bench *args:
    hack/rollout-bench {{ args }}

# schedpatch-pin against its goals on a real control plane (needs root)
pin-bench *args:
    hack/pin-bench {{ args }}

# schedpatch-pin against an API that fails at random (one walk: just pin-walk 0 SEED)
pin-walk steps="100000" seed="18":
    SCHEDPATCH_PIN_WALK_STEPS={{ steps }} SCHEDPATCH_PIN_WALK_SEED={{ seed }} \
        cargo test --locked --package schedpatch-pin --test walk walk -- --nocapture

# schedpatch-extender on a real cluster: a real scheduler, a real Prometheus, fake nodes (4 minutes; --quick: 2; needs root)
e2e-extender *args:
    hack/extender-e2e {{ args }}

# schedpatch-extender from its chart and images on a real cluster: wired, changed, removed (needs root)
e2e-extender-chart *args:
    hack/extender-chart {{ args }}

# schedpatch-extender against its goals, beside an extender in Go
extender-bench *args:
    hack/extender-bench {{ args }}

# the test bed checks itself: each component killed and broken, nothing left behind (15 minutes; needs root)
testbed *words:
    hack/testbed/selftest {{ words }}

# killed, failing and losing power at every call that changes a file (all pairs with: just crash --all; needs root)
crash *args:
    hack/crash {{ args }}

# instructions of edit and apply, counted by callgrind, against their budgets; time of composing and of file work (one: just bench edit)
bench *tables:
    hack/tool valgrind
    cargo bench --locked --bench budgets -- {{ tables }}

# the agent against its goals on a real control plane: memory, system calls, requests, latencies (half an hour, needs root)
agent-bench *args:
    hack/bench {{ args }}

# many changes and many restarts of the agent on a real control plane: how often does the scheduler restart? (an hour, root)
soak *args:
    hack/soak {{ args }}

# the agent's image both ways, without a container engine and from the Dockerfile; they must be the same
image:
    hack/image --check

# the chart: lint, golden renderings, refusals, the README's table, what the pod sees of a host (anew with: just chart --update)
chart *args:
    hack/chart {{ args }}

# the plan for a host tree and a source directory, by default the bundled example
plan host="examples/host" source="examples/source":
    cargo run --quiet -- plan --host-root {{ host }} --source {{ source }}
