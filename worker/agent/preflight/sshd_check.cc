#include "worker/agent/preflight/check.h"
#include "worker/agent/sshd.h"

namespace ringmaster::agent {

std::optional<Finding> CheckSshd(const Config& config) {
  if (!FindSshd(Variable(config, "PATH")).empty()) return std::nullopt;
  return Finding{"sshd",
                 "the image has no sshd, by which mpirun reaches this worker; install "
                 "openssh-server in it"};
}

}  // namespace ringmaster::agent
