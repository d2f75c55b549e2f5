#pragma once

// The backends of the measured operations: the trainer's communicators over Gloo, shared memory and
// NCCL, and MPI, which programs of direct jobs use.

#include <array>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "common/base/result.h"
#include "worker/bench/collectives/collective.h"
#include "worker/trainer/comm/world.h"
#include "worker/trainer/gpu/gpu_choice.h"

namespace ringmaster::bench {

// Thread-safety: one thread.
class Backend {
 public:
  virtual ~Backend() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  // Returns LibTorch's name of the device whose memory this backend uses.
  virtual std::string device() const { return "cpu"; }
  // Returns the two registered buffers on that device; null if the backend can use any memory.
  virtual std::array<std::byte*, 2> registered() const { return {}; }

  // Queues operations. They run one after the other, or as one operation if the library supports
  // it. A backend without a queue runs them immediately. Every rank must make the same calls.
  virtual Result<void> Start(std::span<const Call> together) = 0;
  // Blocks until all started operations are done on this rank.
  virtual Result<void> Finish() = 0;
  virtual Result<void> Barrier() = 0;

  // Reduces `value`, in host memory, over the ranks in place. Blocks.
  virtual Result<void> Agree(trainer::Elements value, trainer::ReduceOp op) = 0;
};

// Returns the request for the GPU that rank `rank` uses on its host.
trainer::GpuRequest GpuRequestOf(int rank);

// Returns the backend for --backend=auto: nccl in builds with CUDA if the Pod has GPUs, or if this
// process runs outside of a Pod (`gpus_of_pod` is empty) and the host has GPUs; otherwise gloo.
std::string ChooseBackend(std::optional<int> gpus_of_pod, const trainer::GpuFacts& facts);
// Returns ChooseBackend() for this process.
std::string AutoBackend();

// Checks that the backend (gloo, shared-memory, mpi or nccl) can be measured with `ranks` ranks.
// kInvalid: it is not in this build or not available on this host; the message says what to do.
Result<void> CheckBackend(const std::string& name, Collective collective, int ranks);

// Creates a backend for `world`, the world of RunOnRanks(). `registered_bytes` is the size of each
// of its two registered buffers; 0: it has no such buffers. kInvalid: this rank has no device, or
// the buffers cannot be registered. REQUIRES: CheckBackend() succeeded; `name` is not mpi (see
// MakeMpiBackend()); `registered_bytes` is 0 unless `name` is nccl.
Result<std::unique_ptr<Backend>> MakeBackend(const std::string& name, const trainer::World& world,
                                             std::size_t registered_bytes);

#if defined(RINGMASTER_BENCH_MPI)
// Creates a backend for a rank that mpirun started. The backend initialises and finalises MPI.
Result<std::unique_ptr<Backend>> MakeMpiBackend();
#endif

}  // namespace ringmaster::bench
