# The tools image, for worker and launcher Pods whose own image does not contain Ringmaster: one static program, links with its other
# names, and the Python package. The Pod's init container runs `ringmaster-tools install FOLDER`; or the Pod mounts the image as a
# volume.
#
#   docker build -f images/tools.Dockerfile -t registry.example.com/ringmaster-tools:0.1.0 .
#   docker buildx build --platform linux/amd64,linux/arm64 --push -f images/tools.Dockerfile -t … .     # for nodes of both kinds
#
# BASE_IMAGE compiles the program (Debian 12), also for another architecture; it is not part of the image.
ARG BASE_IMAGE=debian:12-slim

FROM --platform=${BUILDPLATFORM} ${BASE_IMAGE} AS build
ARG TARGETARCH
ENV CCACHE_DIR=/var/cache/ccache CCACHE_COMPILERCHECK=content
COPY images/tools/install-build.sh /opt/ringmaster/images/
RUN /opt/ringmaster/images/install-build.sh
COPY images/tools/build.sh images/record-packages.sh /opt/ringmaster/images/
COPY CMakeLists.txt /src/
COPY common /src/common
COPY worker/CMakeLists.txt /src/worker/
COPY worker/agent /src/worker/agent
COPY worker/audit /src/worker/audit
COPY worker/launcher /src/worker/launcher
COPY worker/tools /src/worker/tools
RUN --mount=type=cache,target=/var/cache/ccache /opt/ringmaster/images/build.sh /src /root-of-image

FROM scratch
COPY --from=build /root-of-image/ /
COPY worker/python/ringmaster /ringmaster/lib/ringmaster/python/ringmaster
USER 65532:65532
ENTRYPOINT ["/ringmaster/bin/ringmaster-tools"]
