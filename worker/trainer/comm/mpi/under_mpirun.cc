#include <cstdlib>

#include "worker/trainer/comm/mpi/mpi_world.h"

namespace ringmaster::trainer {

bool UnderMpirun() { return std::getenv("OMPI_COMM_WORLD_SIZE") != nullptr; }

}  // namespace ringmaster::trainer
