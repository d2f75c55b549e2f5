// Decides whether mpirun or the agents start the ranks, how mpirun reaches the workers, and which
// preflight findings of the workers can therefore be ignored.

#include <algorithm>
#include <string_view>
#include <utility>

#include "common/base/log.h"
#include "common/control/membership.h"
#include "common/control/protocol_version.h"
#include "worker/launcher/coordinator/job.h"

namespace ringmaster::launcher {

Actions Job::OnMpiVersion(Time now, const std::string& version) {
  openmpi_version_ = version;
  for (auto& [pod_uid, worker] : workers_) TakeFaults(worker);
  Advance(now);
  return std::exchange(actions_, {});
}

Actions Job::OnNoMpirun(Time now) {
  LetAgentsStart();
  Advance(now);
  return std::exchange(actions_, {});
}

void Job::LetAgentsStart() {
  agents_start_ = true;
  openmpi_version_.clear();
  for (auto& [pod_uid, worker] : workers_) TakeFaults(worker);
}

// If a worker has no sshd or its user has no name, mpirun reaches all workers through agents. If
// the worker also lacks Open MPI's daemon, or its agent cannot run commands, agents start the
// ranks. The findings remain faults if the job configures mpirun, or if mpirun has already started
// a world, because the image then has what mpirun needs.
void Job::ChooseStarter(const Worker& worker) {
  if (agents_start_ || startup_.cohort() != control::kStartedByAgents) return;
  const auto lacks = [&worker](std::string_view check) {
    return std::ranges::any_of(worker.ready->faults, [check](const control::PreflightFault& fault) {
      return fault.check == check;
    });
  };
  const bool no_ssh = lacks(control::kCheckSshd);
  if (!no_ssh && !through_agents_) return;
  const std::string who = NameOf(worker.hello.pod_uid);
  const bool no_daemon = lacks(control::kCheckMpi) || !RunsCommands(worker);
  if (no_daemon && !options_.asks_for_mpirun) {
    LogInfo("The agents start the ranks",
            {{"reason", who + " can be reached neither over ssh nor by an agent with Open MPI"}});
    return LetAgentsStart();
  }
  if (through_agents_ || options_.launch_agent == control::LaunchAgent::kSsh) return;
  LogInfo("mpirun reaches the workers through their agents",
          {{"reason", who + " cannot be reached over ssh"}});
  through_agents_ = true;
  for (auto& [pod_uid, other] : workers_) TakeFaults(other);
}

bool Job::RunsCommands(const Worker& worker) const {
  return worker.hello.protocol >= control::kProtocolOfCommands;
}

// Removes the faults that have no effect for the chosen way to start the ranks.
void Job::TakeFaults(Worker& worker) {
  if (!StarterKnown() || !worker.ready) return;
  ChooseStarter(worker);
  std::erase_if(worker.ready->faults, [&](const control::PreflightFault& fault) {
    if (agents_start_) return control::OnlyMpirunNeeds(fault.check);
    if (fault.check == control::kCheckMpiProgram) return true;
    return through_agents_ && RunsCommands(worker) && control::OnlySshNeeds(fault.check);
  });
}

}  // namespace ringmaster::launcher
