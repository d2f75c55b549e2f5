# The image of a job's launcher and workers: sshd, mpirun, LibTorch and Ringmaster's programs.
#
#   docker build -f images/worker.Dockerfile -t registry.example.com/ringmaster-worker:0.1.0 .
#
# BASE_IMAGE is Ubuntu 24.04 (the default, with CUDA), Debian 13 or Debian 12: the scripts in images/worker branch on it.
# images/build.sh builds this same file on Debian root file systems.
ARG BASE_IMAGE=nvidia/cuda:13.0.1-runtime-ubuntu24.04

FROM ${BASE_IMAGE} AS build
ENV CCACHE_DIR=/var/cache/ccache CCACHE_COMPILERCHECK=content
# The wheels are those that the `gpu` preset is tested with (bench/ddp/install.sh, deploy/local/cuda.sh).
COPY images/worker/packages.sh images/worker/install-build.sh images/worker/install-torch.sh /opt/ringmaster/images/
COPY images/worker/torch.requirements images/worker/cuda.requirements /opt/ringmaster/images/
RUN /opt/ringmaster/images/install-build.sh && /opt/ringmaster/images/install-torch.sh
COPY images/worker/build.sh /opt/ringmaster/images/
COPY CMakeLists.txt /src/
COPY common /src/common
COPY worker /src/worker
RUN --mount=type=cache,target=/var/cache/ccache /opt/ringmaster/images/build.sh /src /out

# Everything but our programs: this layer stays the same from release to release.
FROM ${BASE_IMAGE} AS runtime
COPY images/worker/packages.sh images/worker/install-runtime.sh images/worker/slim.sh /opt/ringmaster/images/
RUN /opt/ringmaster/images/install-runtime.sh

FROM runtime
COPY --from=build /opt/torch/ /opt/torch/
COPY --from=build /out/ /usr/local/bin/
COPY images/worker/check.sh /opt/ringmaster/images/
RUN /opt/ringmaster/images/check.sh
USER 1000:1000
WORKDIR /tmp
CMD ["/bin/sh"]
