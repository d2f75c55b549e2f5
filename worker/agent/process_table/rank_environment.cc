#include "worker/agent/process_table/rank_environment.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <sched.h>
#include <sstream>

#include "common/control/pod_contract.h"
#include "common/control/protocol_version.h"

namespace ringmaster::agent {

std::vector<std::string> RankEnvironment(const Config& config, int slot, int cpus,
                                         const std::string& position_page,
                                         const std::string& gpus) {
  Environment environment = config.container;
  for (const char* const name :
       {control::kEnvItemHashes, control::kEnvCredentialsDir, control::kEnvLaunchSpec,
        control::kEnvPositionPage, control::kEnvNvmlLibrary, control::kEnvGpuUuid}) {
    environment.erase(name);
  }
  const int slots = config.spec.slots_per_worker;
  environment.try_emplace("OMP_NUM_THREADS", std::to_string(std::max(1, cpus / slots)));
  const control::Interfaces& interfaces = config.spec.interfaces;
  if (const std::string nccl = control::NcclInterfaces(interfaces); !nccl.empty()) {
    environment.try_emplace("NCCL_SOCKET_IFNAME", nccl);
  }
  // PyTorch's Gloo cannot exclude any.
  if (!interfaces.include.empty()) {
    environment.try_emplace("GLOO_SOCKET_IFNAME", control::InterfaceList(interfaces.include));
  }
  environment[control::kEnvAgentSocket] = config.AgentSocket();
  environment[control::kEnvSlot] = std::to_string(slot);
  environment[control::kEnvProtocol] = std::to_string(control::kProtocolVersion);
  if (!position_page.empty()) environment[control::kEnvPositionPage] = position_page;
  environment.erase(control::kEnvSnapshotDir);
  if (!config.snapshot_dir.empty()) environment[control::kEnvSnapshotDir] = config.snapshot_dir;
  if (!gpus.empty()) {
    environment["CUDA_VISIBLE_DEVICES"] = gpus;
    environment[control::kEnvGpuUuid] = gpus.substr(0, gpus.find(','));
  }
  environment["LOCAL_RANK"] = std::to_string(slot);
  environment["LOCAL_WORLD_SIZE"] = std::to_string(slots);
  std::vector<std::string> entries;
  entries.reserve(environment.size());
  for (const auto& [name, value] : environment) entries.push_back(name + '=' + value);
  return entries;
}

int CpusOfQuota(const std::string& cpu_max) {
  std::istringstream text(cpu_max);
  long long quota = 0;
  long long period = 0;
  if (!(text >> quota >> period) || quota <= 0 || period <= 0) return 0;
  return static_cast<int>(std::clamp<long long>((quota + period - 1) / period, 1, 4096));
}

int AvailableCpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  const int schedulable = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
  std::ifstream file("/sys/fs/cgroup/cpu.max");
  const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  const int quota = CpusOfQuota(text);
  return std::max(1, quota > 0 ? std::min(quota, schedulable) : schedulable);
}

}  // namespace ringmaster::agent
