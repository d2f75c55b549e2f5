#pragma once

// What carries the measured operations. Over Gloo it is the trainer's own communicator; over MPI
// the library that jobs of direct programs use.

#include <memory>
#include <string>

#include "common/base/result.h"
#include "worker/bench/collectives/collective.h"
#include "worker/trainer/membership_source.h"

namespace ringmaster::bench {

// Thread-safety: one thread.
class Backend {
 public:
  virtual ~Backend() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  // Whether it has this type, and reduces it so.
  virtual bool Supports(trainer::ElementType type, trainer::ReduceOp op) const = 0;

  // Blocks until the operation is done on this rank. Every rank makes the same calls.
  virtual Result<void> Run(const Call& call) = 0;
  virtual Result<void> Barrier() = 0;
};

// gloo, mpi, nccl. kInvalid: not in this build, or not to be had here, and what to do.
Result<void> CheckBackend(const std::string& name);

// One that meets in `world`, that of RunOnRanks(). REQUIRES: CheckBackend() agreed, and `name` is
// not mpi, whose ranks mpirun starts.
std::unique_ptr<Backend> MakeBackend(const std::string& name, const trainer::World& world);

#if defined(RINGMASTER_BENCH_MPI)
// The processes that mpirun started; MPI is initialised with it and finalised with its end.
Result<std::unique_ptr<Backend>> MakeMpiBackend();
#endif

}  // namespace ringmaster::bench
