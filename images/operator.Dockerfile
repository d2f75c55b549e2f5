# The operator's image: one program and its shared libraries, no shell, no package manager, uid 65532.
#
#   docker build -f images/operator.Dockerfile -t registry.example.com/ringmaster-operator:0.1.0 .
#
# BASE_IMAGE compiles the operator (Debian 12); only its libraries get into the image.
ARG BASE_IMAGE=debian:12-slim

FROM ${BASE_IMAGE} AS build
ENV CCACHE_DIR=/var/cache/ccache CCACHE_COMPILERCHECK=content
COPY images/operator/install-build.sh /opt/ringmaster/images/
RUN /opt/ringmaster/images/install-build.sh
COPY images/operator/build.sh images/record-packages.sh /opt/ringmaster/images/
COPY CMakeLists.txt /src/
COPY common /src/common
COPY operator /src/operator
RUN --mount=type=cache,target=/var/cache/ccache /opt/ringmaster/images/build.sh /src /root-of-image

FROM scratch
COPY --from=build /root-of-image/ /
USER 65532:65532
ENTRYPOINT ["/usr/bin/ringmaster-operator"]
