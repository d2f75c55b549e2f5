# The image of a job's launcher and workers: sshd, mpirun, LibTorch and Ringmaster's programs.
#
#   docker build -f images/worker.Dockerfile -t registry.example.com/ringmaster-worker:0.1.0 .
#
# BASE_IMAGE is NVIDIA's image of Ubuntu 24.04 (the default, for GPUs), Debian 13 or Debian 12 (CPU); the scripts in images/worker
# support these three. images/build.sh builds this file on Debian root file systems.
ARG BASE_IMAGE=nvidia/cuda:13.0.1-base-ubuntu24.04

# images/build.sh passes the wheels that this machine already has: --build-context wheels=…
FROM scratch AS wheels

FROM ${BASE_IMAGE} AS build
ENV CCACHE_DIR=/var/cache/ccache CCACHE_COMPILERCHECK=content
COPY images/worker/packages.sh images/worker/install-build.sh /opt/ringmaster/images/
RUN /opt/ringmaster/images/install-build.sh
# The wheels that every build and test uses (deploy/local/libtorch.sh, deploy/local/cuda.sh).
COPY images/worker/fetch-wheels.sh images/worker/install-torch.sh images/worker/*.requirements /opt/ringmaster/images/
COPY images/worker/licences /opt/ringmaster/images/licences
RUN --mount=type=bind,from=wheels,target=/opt/wheels /opt/ringmaster/images/install-torch.sh
COPY images/worker/build.sh /opt/ringmaster/images/
COPY CMakeLists.txt /src/
COPY third_party /src/third_party
COPY common /src/common
COPY worker /src/worker
RUN --mount=type=cache,target=/var/cache/ccache /opt/ringmaster/images/build.sh /src /out

# Everything except our programs: this layer stays the same from release to release.
FROM ${BASE_IMAGE} AS runtime
COPY images/worker/packages.sh images/worker/install-runtime.sh images/worker/slim.sh /opt/ringmaster/images/
RUN /opt/ringmaster/images/install-runtime.sh

FROM runtime
COPY --from=build /opt/torch/lib/ /opt/torch/lib/
COPY --from=build /opt/torch/licences/ /usr/share/doc/libtorch/
COPY third_party/gloo/LICENSE /usr/share/doc/gloo/
COPY --from=build /out/ /usr/local/bin/
# The first copy is for the ranks that agents start, with any Python that a derived image has; the second for the distribution's Python.
COPY worker/python/ringmaster /usr/local/lib/ringmaster/python/ringmaster
COPY worker/python/ringmaster /usr/lib/python3/dist-packages/ringmaster
# For NVIDIA's container runtime. The agent uses NVML, which needs the capability `utility`. The Pod's GPU request, or
# `docker run --gpus`, overrides `void`. GKE mounts the driver at the path; elsewhere it does not exist.
ENV NVIDIA_DRIVER_CAPABILITIES=compute,utility NVIDIA_VISIBLE_DEVICES=void LD_LIBRARY_PATH=/usr/local/nvidia/lib64
COPY images/worker/check.sh /opt/ringmaster/images/
RUN echo /opt/torch/lib >/etc/ld.so.conf.d/ringmaster.conf && ldconfig && /opt/ringmaster/images/check.sh
USER 1000:1000
WORKDIR /tmp
CMD ["/bin/sh"]
