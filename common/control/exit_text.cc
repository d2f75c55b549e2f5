#include "common/control/exit_text.h"

#include "common/base/byte_text.h"
#include "common/control/exit_codes.h"
#include "common/control/pod_contract.h"

namespace ringmaster::control {

std::string HowItEnded(const RankExit& exit) {
  if (exit.out_of_memory) {
    return "was killed because its container ran out of memory: " + MemoryText(*exit.out_of_memory);
  }
  if (exit.signal > 0) return "was killed by signal " + std::to_string(exit.signal);
  if (exit.exit_code == 0) return "exited with code 0 before the training was complete";
  if (exit.exit_code == kExitCannotStart) return "could not be started";
  // In a direct job, the user's program may use this exit code for another purpose.
  if (exit.exit_code == kExitDeviceUnhealthy && !exit.start.empty()) {
    return "exited because its GPU is unhealthy";
  }
  return "exited with code " + std::to_string(exit.exit_code);
}

std::string MemoryText(const OutOfMemory& memory) {
  const bool full = memory.limit_bytes > 0 && memory.peak_bytes >= memory.limit_bytes;
  std::string peak;
  if (full) {
    peak = "all of it was in use";
  } else if (memory.peak_bytes > 0) {
    peak = "at most " + BytesText(memory.peak_bytes) + " were in use";
  }
  if (memory.limit_bytes <= 0) {
    return "it has no memory limit, so its node ran out of memory" +
           (peak.empty() ? "" : ", and " + peak) +
           "; set spec.worker.resources.requests.memory (or the request in spec.worker.template), "
           "so "
           "that it is scheduled to a node with enough memory";
  }
  return "the memory limit is " + BytesText(memory.limit_bytes) +
         (peak.empty() ? "" : ", and " + peak) +
         "; raise spec.worker.resources.limits.memory (or the limit in spec.worker.template), or "
         "reduce the memory use of a rank, for example its batch size";
}

}  // namespace ringmaster::control
