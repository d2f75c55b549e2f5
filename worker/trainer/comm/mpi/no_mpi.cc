#include "worker/trainer/comm/mpi/mpi_world.h"

namespace ringmaster::trainer {

std::string MpiVersion() { return ""; }

Result<std::unique_ptr<MpiWorld>> StartMpi() {
  return Error{
      ErrorKind::kInvalid,
      "--mpi: this build of ringmaster-train has no MPI; build it where Open MPI's headers "
      "are (Debian: libopenmpi-dev), or leave --mpi out"};
}

}  // namespace ringmaster::trainer
