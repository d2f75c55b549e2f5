#include "worker/trainer/environment/rank_environment.h"

#include <cstdlib>

#include "common/base/log.h"
#include "common/control/pod_contract.h"
#include "worker/trainer/gpu/gpu.h"
#include "worker/trainer/world_sources/agent/agent_membership.h"
#include "worker/trainer/world_sources/static/static_membership.h"

namespace ringmaster::trainer {

std::string TextIn(const char* variable) {
  const char* const text = std::getenv(variable);
  return text == nullptr ? "" : text;
}

int NumberIn(const char* variable) {
  const char* const text = std::getenv(variable);
  return text == nullptr ? 0 : std::atoi(text);
}

bool HasAgent() { return std::getenv(control::kEnvAgentSocket) != nullptr; }

Result<std::unique_ptr<MembershipSource>> JoinJob(const Clock& clock) {
  if (!HasAgent()) return MakeSingleMembership();
  Result<std::unique_ptr<AgentMembership>> agent = AgentMembership::Connect(
      TextIn(control::kEnvAgentSocket), NumberIn(control::kEnvSlot), clock);
  if (!agent.ok()) return agent.error();
  return std::unique_ptr<MembershipSource>(*std::move(agent));
}

std::shared_ptr<Position> MakePosition() {
  auto position = std::make_shared<Position>();
  const char* page = std::getenv(control::kEnvPositionPage);
  if (page == nullptr) return position;
  if (Result<void> opened = position->Open(page); !opened.ok()) {
    LogWarn("Disabled position reporting", {{"reason", opened.error().message}});
  }
  return position;
}

Result<void> CheckGlobalBatch(const std::string& name, int64_t global_batch, int ranks) {
  if (global_batch >= ranks) return {};
  return Error{ErrorKind::kInvalid,
               name + "=" + std::to_string(global_batch) + " is less than the " +
                   std::to_string(ranks) +
                   " ranks that this job may have (workers times slotsPerWorker), so some ranks "
                   "would have no samples; raise it, or lower maxReplicas or slotsPerWorker"};
}

void NameJob(CheckpointPlace& place) {
  if (!HasAgent()) return;
  place.ns = TextIn(control::kEnvNamespace);
  place.name = TextIn(control::kEnvJobName);
  place.uid = TextIn(control::kEnvJobUid);
}

std::optional<GpuFault> FaultOfOwnGpu(bool opened) {
  return opened || !PinnedGpu().empty() ? FindGpuFault() : std::nullopt;
}

}  // namespace ringmaster::trainer
