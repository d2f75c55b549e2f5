#pragma once

// The user's program, which every rank runs. The operator writes it into each Pod (pod_contract.h,
// kEnvLaunchSpec); agent and launcher read it once at start. It does not change during a run.

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "common/control/interfaces.h"

namespace ringmaster::control {

// Whether the command is ringmaster-train, or ringmaster-bench with a backend other than MPI. The
// ranks of these programs speak the rank protocol (messages.h).
bool SpeaksRankProtocol(const std::vector<std::string>& command);

// spec.mpi.launchAgent: how mpirun reaches the workers. kAuto: over ssh if all of them have sshd,
// else through their agents.
enum class LaunchAgent { kAuto, kSsh, kAgent };
inline constexpr std::array kLaunchAgents = {"Auto", "SSH", "Agent"};

struct LaunchSpec {
  std::vector<std::string> command;  // argv of every rank; never empty, never passed to a shell
  int slots_per_worker = 1;          // processes per worker, >= 1
  // From spec.launchMode PerWorker: the number of ranks that each process starts by itself, as
  // torchrun does. 0: the process is a rank.
  int ranks_per_process = 0;
  std::vector<std::string> mpi_extra_args;  // appended to mpirun's options, before the program
  std::vector<std::string>
      mpi_pass_env;  // names of variables that mpirun passes on (-x), in addition to Ringmaster's
  LaunchAgent launch_agent = LaunchAgent::kAuto;
  Interfaces interfaces{};  // from spec.network
  int ssh_port = 0;         // 0: any free port
  // Set by the operator (TrainingJobSpec::InPlace). Older operators do not set it; InPlace() then
  // uses the program's name.
  std::optional<bool> in_place{};
  // spec.elasticity.allowedSizes: the allowed world sizes in workers, ascending; empty: any.
  std::vector<int> allowed_sizes{};

  // True for an elastic job: the agent runs the ranks, which speak the rank protocol and continue
  // when the world changes. False for a direct job: the ranks belong to one world and are restarted
  // for the next world.
  bool InPlace() const { return in_place.value_or(SpeaksRankProtocol(command)); }
  bool PerWorker() const { return ranks_per_process > 0; }
  // Whether the spec sets options that only mpirun has, so that only mpirun can start the ranks.
  bool AsksForMpirun() const {
    return !mpi_extra_args.empty() || !mpi_pass_env.empty() || launch_agent != LaunchAgent::kAuto;
  }
};

std::string EncodeLaunchSpec(const LaunchSpec& spec);

// Fails with kInvalid if the text is not a JSON object or a field is invalid: for example the
// command is empty, or an interface name is not a plain name (interfaces.h).
Result<LaunchSpec> DecodeLaunchSpec(std::string_view text);

}  // namespace ringmaster::control
