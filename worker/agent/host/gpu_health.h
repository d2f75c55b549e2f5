#pragma once

// Tracks errors of this worker's GPUs and which GPUs are unusable. Does no I/O; used by the
// agent.

#include <map>
#include <set>
#include <string>
#include <vector>

#include "worker/agent/host/gpu_list.h"

namespace ringmaster::agent {

// Describes an error, as "the driver reported Xid 79 (the GPU has fallen off the bus)".
std::string TroubleText(const GpuTrouble& trouble);

class GpuHealth {
 public:
  // Records an error of a GPU. Returns true if the error made a usable GPU unusable.
  bool Note(const GpuTrouble& trouble);

  bool Lost(const std::string& uuid) const { return lost_.contains(uuid); }

  // Returns why a slot's rank found its GPU unhealthy, from its last output and recorded errors:
  // "GPU-8932f937-… of slot 2: … CUDA says …; the driver reported Xid 79 (…)".
  std::string WhyUnhealthy(int slot, const std::string& uuid,
                           const std::vector<std::string>& last_lines) const;

 private:
  std::map<std::string, std::string> troubles_;  // by UUID: the fatal error, or else the newest
  std::set<std::string> lost_;
};

}  // namespace ringmaster::agent
