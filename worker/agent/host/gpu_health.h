#pragma once

// Tracks errors of this worker's GPUs and which GPUs are unusable. Does no I/O; used by the
// agent.

#include <map>
#include <set>
#include <string>
#include <vector>

#include "worker/agent/host/gpu_list.h"

namespace ringmaster::agent {

// "the driver reported Xid 79 (the GPU has fallen off the bus)".
std::string TroubleText(const GpuTrouble& trouble);

class GpuHealth {
 public:
  // Returns whether this made a usable device unusable.
  bool Note(const GpuTrouble& trouble);

  bool Lost(const std::string& uuid) const { return lost_.contains(uuid); }

  // Why a slot's rank found its GPU unhealthy, by what it printed last and by what was noted:
  // "GPU-8932f937-… of slot 2: … CUDA says …; the driver reported Xid 79 (…)".
  std::string WhyUnhealthy(int slot, const std::string& uuid,
                           const std::vector<std::string>& last_lines) const;

 private:
  std::map<std::string, std::string> troubles_;  // by UUID: the newest, or what made it useless
  std::set<std::string> lost_;
};

}  // namespace ringmaster::agent
