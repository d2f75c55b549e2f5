#include "worker/bench/collectives/backend.h"

#include <cstdlib>

#include "worker/bench/collectives/communicator_backend.h"
#include "worker/bench/ranks.h"

namespace ringmaster::bench {
namespace {

// Whether Open MPI's mpirun started this process.
bool UnderMpirun() { return std::getenv("OMPI_COMM_WORLD_SIZE") != nullptr; }

Result<void> CheckMpi() {
#if defined(RINGMASTER_BENCH_MPI)
  if (UnderMpirun()) return {};
  return Error{ErrorKind::kInvalid,
               "--backend=mpi measures the ranks that mpirun starts: mpirun -n 2 ringmaster-bench "
               "allreduce --backend=mpi"};
#else
  return Error{ErrorKind::kInvalid,
               "--backend=mpi: this build has no MPI (it was built without Open MPI's headers); "
               "use --backend=gloo"};
#endif
}

Result<void> CheckNccl([[maybe_unused]] int ranks) {
#if defined(RINGMASTER_BENCH_CUDA)
  if (UnderAgent()) return {};  // this rank sees for itself
  return CheckGpus(ranks);
#else
  return Error{ErrorKind::kInvalid,
               "--backend=nccl: this build has no NCCL communicator (it was built without CUDA); "
               "use --backend=gloo"};
#endif
}

}  // namespace

Result<void> CheckBackend(const std::string& name, int ranks) {
  if (name == "mpi") return CheckMpi();
  if (!UnderAgent() && UnderMpirun()) {
    return Error{ErrorKind::kInvalid,
                 "--backend=" + name +
                     " starts its own ranks, or is started by a TrainingJob; under mpirun use "
                     "--backend=mpi"};
  }
  return name == "nccl" ? CheckNccl(ranks) : Result<void>();
}

Result<std::unique_ptr<Backend>> MakeBackend(const std::string& name, const trainer::World& world) {
  return MakeCommunicatorBackend(name, world);
}

}  // namespace ringmaster::bench
