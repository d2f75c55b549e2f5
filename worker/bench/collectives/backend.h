#pragma once

// What carries the measured operations: the trainer's own communicators over Gloo, shared memory
// and NCCL, or MPI, the library that jobs of direct programs use.

#include <memory>
#include <string>

#include "common/base/result.h"
#include "worker/bench/collectives/collective.h"
#include "worker/trainer/comm/world.h"

namespace ringmaster::bench {

// Thread-safety: one thread.
class Backend {
 public:
  virtual ~Backend() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  // Whose memory it works on, as LibTorch names it.
  virtual std::string device() const { return "cpu"; }
  // Whether it has this type, and reduces it so.
  virtual bool Supports(trainer::ElementType type, trainer::ReduceOp op) const = 0;

  // Blocks until the operation is done on this rank. Every rank makes the same calls.
  virtual Result<void> Run(const Call& call) = 0;
  virtual Result<void> Barrier() = 0;
};

// gloo, shared-memory, mpi, nccl; `ranks` are those that this process would start. kInvalid: not in
// this build, or not to be had here, and what to do.
Result<void> CheckBackend(const std::string& name, int ranks);

// One that meets in `world`, that of RunOnRanks(). kInvalid: there is no device for this rank.
// REQUIRES: CheckBackend() agreed, and `name` is not mpi, whose ranks mpirun starts.
Result<std::unique_ptr<Backend>> MakeBackend(const std::string& name, const trainer::World& world);

#if defined(RINGMASTER_BENCH_MPI)
// The processes that mpirun started; MPI is initialised with it and finalised with its end.
Result<std::unique_ptr<Backend>> MakeMpiBackend();
#endif

}  // namespace ringmaster::bench
