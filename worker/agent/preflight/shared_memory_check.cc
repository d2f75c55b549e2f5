#include <sys/statvfs.h>

#include "worker/agent/preflight/check.h"

namespace ringmaster::agent {

// Ranks of one worker exchange data through /dev/shm. Little of it costs speed, or a run on GPUs;
// so this only warns.
std::optional<Finding> CheckSharedMemory(const Config& config) {
  struct statvfs status {};
  if (statvfs("/dev/shm", &status) != 0) {
    return Finding{"shm", "there is no /dev/shm; mount an emptyDir with medium Memory there",
                   false};
  }
  const unsigned long long size_mib =
      (static_cast<unsigned long long>(status.f_blocks) * status.f_frsize) >> 20;
  const auto slots = static_cast<unsigned long long>(config.spec.slots_per_worker);
  const unsigned long long wanted_mib = (config.gpus > 0 ? 1024 : 64) * slots;
  if (slots == 1 || size_mib >= wanted_mib) return std::nullopt;
  return Finding{"shm",
                 "/dev/shm has " + std::to_string(size_mib) + " MiB for " + std::to_string(slots) +
                     " ranks and should have " + std::to_string(wanted_mib) +
                     " MiB; mount an emptyDir with medium Memory there",
                 false};
}

}  // namespace ringmaster::agent
