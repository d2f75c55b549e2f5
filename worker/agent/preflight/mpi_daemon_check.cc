#include "common/process/process.h"
#include "worker/agent/preflight/check.h"

namespace ringmaster::agent {

// mpirun starts this program here over ssh, found in PATH.
std::optional<Finding> CheckMpiDaemon(const Config& config) {
  const std::string path = Variable(config, "PATH");
  if (!FindProgram("orted", path).empty() || !FindProgram("prted", path).empty()) {
    return std::nullopt;
  }
  return Finding{
      "mpi", "the image has neither orted (Open MPI 4) nor prted (Open MPI 5) in PATH (" + path +
                 "); install Open MPI in it"};
}

}  // namespace ringmaster::agent
