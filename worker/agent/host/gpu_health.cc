#include "worker/agent/host/gpu_health.h"

#include <algorithm>

#include "worker/agent/host/gpu_xids.h"

namespace ringmaster::agent {

std::string TroubleText(const GpuTrouble& trouble) {
  return trouble.xid > 0 ? "the driver reported " + XidText(trouble.xid)
                         : "it does not answer (" + trouble.fault + ")";
}

bool GpuHealth::Note(const GpuTrouble& trouble) {
  // A slot that was not assigned a GPU has an empty UUID.
  if (trouble.uuid.empty()) return false;
  // Keep the error that made the GPU unusable, because later errors are less informative.
  if (!Lost(trouble.uuid)) troubles_[trouble.uuid] = TroubleText(trouble);
  const bool useless = trouble.xid == 0 || IsFatalXid(trouble.xid);
  return useless && lost_.insert(trouble.uuid).second;
}

std::string GpuHealth::WhyUnhealthy(int slot, const std::string& uuid,
                                    const std::vector<std::string>& last_lines) const {
  const auto said = std::ranges::find_if(last_lines, [](const std::string& line) {
    return line.find("CUDA reported") != std::string::npos;
  });
  std::string why = said == last_lines.end() ? "" : *said;
  if (const auto trouble = troubles_.find(uuid); trouble != troubles_.end()) {
    why += (why.empty() ? "" : "; ") + trouble->second;
  }
  return (uuid.empty() ? "the GPU" : uuid) + " of slot " + std::to_string(slot) + ": " +
         (why.empty() ? "its rank reported it as unhealthy" : why);
}

}  // namespace ringmaster::agent
