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
  // Whose memory it works on, as LibTorch names it.
  virtual std::string device() const { return "cpu"; }
  // The two buffers that its library has registered, of that device; null where any others do.
  virtual std::array<std::byte*, 2> registered() const { return {}; }

  // Queues operations, which run one after the other; `together` as one where it can. What has no
  // queue runs them at once. Every rank makes the same calls.
  virtual Result<void> Start(std::span<const Call> together) = 0;
  // Blocks until all started operations are done on this rank.
  virtual Result<void> Finish() = 0;
  virtual Result<void> Barrier() = 0;

  // `value`, memory of the host, reduced over the ranks in place; blocks.
  virtual Result<void> Agree(trainer::Elements value, trainer::ReduceOp op) = 0;
};

// What rank `rank` of a world asks of its machine: its own GPU.
trainer::GpuRequest GpuRequestOf(int rank);

// The meaning of --backend=auto: nccl in builds with CUDA if the Pod has GPUs or, outside of a Pod
// (empty), if there are any; otherwise gloo.
std::string ChooseBackend(std::optional<int> gpus_of_pod, const trainer::GpuFacts& facts);
// The same for this process.
std::string AutoBackend();

// Whether gloo, shared-memory, mpi or nccl can measure it; `ranks` are those that this process
// would start. kInvalid: not in this build, or not to be had here, and what to do.
Result<void> CheckBackend(const std::string& name, Collective collective, int ranks);

// One that meets in `world`, that of RunOnRanks(). `registered_bytes`: of each of its two
// registered buffers; 0: it has none. kInvalid: there is no device for this rank, or it cannot
// register them. REQUIRES: CheckBackend() agreed; `name` is not mpi, whose ranks mpirun starts;
// only nccl registers.
Result<std::unique_ptr<Backend>> MakeBackend(const std::string& name, const trainer::World& world,
                                             std::size_t registered_bytes);

#if defined(RINGMASTER_BENCH_MPI)
// The processes that mpirun started; MPI is initialised with it and finalised with its end.
Result<std::unique_ptr<Backend>> MakeMpiBackend();
#endif

}  // namespace ringmaster::bench
