#include "worker/agent/process_table/rank_environment.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <sched.h>
#include <sstream>

#include "common/control/pod_contract.h"
#include "common/control/protocol_version.h"

namespace ringmaster::agent {

namespace {

// Returns the container's variables without the agent's, plus those of all ranks and programs.
Environment CommonEnvironment(const Config& config, int cpus) {
  Environment environment = config.container;
  for (const char* const name :
       {control::kEnvItemHashes, control::kEnvCredentialsDir, control::kEnvLaunchSpec,
        control::kEnvPositionPage, control::kEnvNvmlLibrary, control::kEnvGpuUuid,
        control::kEnvSnapshotDir}) {
    environment.erase(name);
  }
  const control::LaunchSpec& spec = config.spec;
  const int ranks = spec.slots_per_worker * std::max(1, spec.ranks_per_process);
  environment.try_emplace("OMP_NUM_THREADS", std::to_string(std::max(1, cpus / ranks)));
  const control::Interfaces& interfaces = spec.interfaces;
  if (const std::string nccl = control::NcclInterfaces(interfaces); !nccl.empty()) {
    environment.try_emplace("NCCL_SOCKET_IFNAME", nccl);
  }
  // Ignore the excluded interfaces, because PyTorch's Gloo cannot exclude interfaces.
  if (!interfaces.include.empty()) {
    environment.try_emplace("GLOO_SOCKET_IFNAME", control::InterfaceList(interfaces.include));
  }
  return environment;
}

std::vector<std::string> Entries(const Environment& environment) {
  std::vector<std::string> entries;
  entries.reserve(environment.size());
  for (const auto& [name, value] : environment) entries.push_back(name + '=' + value);
  return entries;
}

}  // namespace

std::vector<std::string> RankEnvironment(const Config& config, int slot, int cpus,
                                         const std::string& position_page,
                                         const std::string& gpus) {
  Environment environment = CommonEnvironment(config, cpus);
  environment[control::kEnvAgentSocket] = config.AgentSocket();
  environment[control::kEnvSlot] = std::to_string(slot);
  environment[control::kEnvProtocol] = std::to_string(control::kProtocolVersion);
  if (!position_page.empty()) environment[control::kEnvPositionPage] = position_page;
  if (!config.snapshot_dir.empty()) environment[control::kEnvSnapshotDir] = config.snapshot_dir;
  if (!gpus.empty()) {
    environment["CUDA_VISIBLE_DEVICES"] = gpus;
    environment[control::kEnvGpuUuid] = gpus.substr(0, gpus.find(','));
  }
  environment["LOCAL_RANK"] = std::to_string(slot);
  environment["LOCAL_WORLD_SIZE"] = std::to_string(config.spec.slots_per_worker);
  return Entries(environment);
}

std::vector<std::string> ProgramEnvironment(const Config& config, const ProgramPlace& place,
                                            int cpus, int port) {
  Environment environment = CommonEnvironment(config, cpus);
  const std::string master_port = std::to_string(port);
  const bool six = place.master_address.find(':') != std::string::npos;
  const std::string host = six ? '[' + place.master_address + ']' : place.master_address;
  const auto set = [&](const char* name, const std::string& value) { environment[name] = value; };
  set("RANK", std::to_string(place.rank));
  set("WORLD_SIZE", std::to_string(place.world_size));
  set("LOCAL_RANK", std::to_string(place.slot));
  set("LOCAL_WORLD_SIZE", std::to_string(place.slots));
  set("NODE_RANK", std::to_string(place.node_rank));
  set("NNODES", std::to_string(place.nodes));
  set("MASTER_ADDR", place.master_address);
  set("MASTER_PORT", master_port);
  set("JAX_COORDINATOR_ADDRESS", host + ':' + master_port);
  set("JAX_NUM_PROCESSES", std::to_string(place.world_size));
  set("JAX_PROCESS_ID", std::to_string(place.rank));
  if (config.spec.PerWorker()) {
    set("PET_NNODES", std::to_string(place.nodes));
    set("PET_NODE_RANK", std::to_string(place.node_rank));
    set("PET_MASTER_ADDR", place.master_address);
    set("PET_MASTER_PORT", master_port);
    environment.try_emplace("PET_NPROC_PER_NODE", std::to_string(config.spec.ranks_per_process));
  }
  set(kEnvHeartbeat, HeartbeatFile(config.runtime_dir, place.slot));
  return Entries(environment);
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
