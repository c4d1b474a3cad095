# The agent's image: one static program, no shell, nothing else.
#
#   docker build --build-arg REVISION="$(git rev-parse HEAD)" -t localhost/schedpatch:0.1.0 .
#
# Bases are arguments, so that they can come from your own registry, pinned by digest. The build needs Rust and a C
# compiler; what is built needs nothing. hack/image makes the same image without a container engine.
ARG BUILD_IMAGE=rust:1.95-bookworm
ARG BASE_IMAGE=scratch

FROM ${BUILD_IMAGE} AS build
WORKDIR /src
COPY Cargo.toml Cargo.lock ./
COPY hack/static hack/layout.ld hack/
COPY benches benches
COPY tests/e2e tests/e2e
COPY examples examples
COPY src src
COPY crates crates
# touched, because the cache may be younger than sources that were never built
RUN --mount=type=cache,id=schedpatch-target,target=/src/target touch src/*.rs crates/*/src/*.rs && hack/static /schedpatch

# docker build --target pin: the image of schedpatch-pin
FROM build AS build-pin
RUN --mount=type=cache,id=schedpatch-target,target=/src/target hack/static /schedpatch-pin schedpatch-pin

FROM ${BASE_IMAGE} AS pin
ARG VERSION=0.1.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="schedpatch-pin" \
      org.opencontainers.image.description="Keeps pods on the nodes that hold their data: pins by labels on nodes, bound directly or through a scheduling gate" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
COPY --from=build-pin /schedpatch-pin /schedpatch-pin
USER 65532
ENTRYPOINT ["/schedpatch-pin"]

# docker build --target extender: the image of schedpatch-extender
FROM build AS build-extender
RUN --mount=type=cache,id=schedpatch-target,target=/src/target hack/static /schedpatch-extender schedpatch-extender

FROM ${BASE_IMAGE} AS extender
ARG VERSION=0.1.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="schedpatch-extender" \
      org.opencontainers.image.description="A kube-scheduler extender that scores and filters nodes by what Prometheus knows of them" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
COPY --from=build-extender /schedpatch-extender /schedpatch-extender
USER 65532
ENTRYPOINT ["/schedpatch-extender"]

FROM ${BASE_IMAGE}
ARG VERSION=0.1.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="schedpatch" \
      org.opencontainers.image.description="Puts your scheduler configuration into the kube-scheduler that a cluster already runs, safely, and takes it out again" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
COPY --from=build /schedpatch /schedpatch
# root, because the manifests are root's; it needs no capability for that
USER 0
ENTRYPOINT ["/schedpatch"]
