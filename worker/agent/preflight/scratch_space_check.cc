#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <sys/statvfs.h>
#include <unistd.h>

#include "worker/agent/preflight/check.h"

namespace ringmaster::agent {

// Open MPI keeps its session directory in /tmp, and ssh and we our files.
std::optional<Finding> CheckScratchSpace(const Config& /*config*/) {
  constexpr unsigned long long kNeededBytes = 16ULL << 20;
  char name[] = "/tmp/.ringmaster-check-XXXXXX";
  const int file = mkstemp(name);
  if (file < 0) {
    return Finding{"tmp", std::string("/tmp is not writable (") + std::strerror(errno) +
                              "); mount a volume there (an emptyDir will do)"};
  }
  unlink(name);
  struct statvfs status {};
  const bool known = fstatvfs(file, &status) == 0;
  close(file);
  const unsigned long long free_bytes =
      known ? static_cast<unsigned long long>(status.f_bavail) * status.f_frsize : kNeededBytes;
  if (free_bytes >= kNeededBytes) return std::nullopt;
  return Finding{"tmp", "/tmp has only " + std::to_string(free_bytes >> 10) +
                            " KiB free and needs 16 MiB; give its volume more space"};
}

}  // namespace ringmaster::agent
