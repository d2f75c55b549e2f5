#include "worker/bench/collectives/backend.h"

#include "worker/bench/collectives/gloo_backend.h"
#include "worker/bench/ranks.h"
#include "worker/trainer/comm/mpi/mpi_world.h"

namespace ringmaster::bench {
namespace {

using trainer::UnderMpirun;

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

}  // namespace

Result<void> CheckBackend(const std::string& name) {
  if (name == "mpi") return CheckMpi();
  if (name == "nccl") {
    return Error{ErrorKind::kInvalid,
                 "--backend=nccl: this build has no NCCL communicator; use --backend=gloo"};
  }
  if (!UnderAgent() && UnderMpirun()) {
    return Error{ErrorKind::kInvalid,
                 "--backend=" + name +
                     " starts its own ranks, or is started by a TrainingJob; under mpirun use "
                     "--backend=mpi"};
  }
  return {};
}

std::unique_ptr<Backend> MakeBackend(const std::string&, const trainer::World& world) {
  return MakeGlooBackend(world);
}

}  // namespace ringmaster::bench
