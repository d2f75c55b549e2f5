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

// Whether the command is ringmaster-train, or our bench where it measures the trainer's
// communicators: their ranks speak the rank protocol (messages.h).
bool SpeaksRankProtocol(const std::vector<std::string>& command);

// spec.mpi.launchAgent: how mpirun reaches the workers. kAuto: over ssh where they have sshd, else
// through their agents.
enum class LaunchAgent { kAuto, kSsh, kAgent };
inline constexpr std::array kLaunchAgents = {"Auto", "SSH", "Agent"};

struct LaunchSpec {
  std::vector<std::string> command;  // argv of every rank; never empty, never given to a shell
  int slots_per_worker = 1;          // processes that we start per worker, >= 1
  // spec.launchMode: PerWorker. How many ranks that one process is to start by itself, as torchrun
  // does; 0: it is a rank.
  int ranks_per_process = 0;
  std::vector<std::string> mpi_extra_args;  // appended to mpirun's options, before the program
  std::vector<std::string>
      mpi_pass_env;  // names of variables that mpirun hands on (-x), beyond our own
  LaunchAgent launch_agent = LaunchAgent::kAuto;
  Interfaces interfaces{};  // of spec.network
  int ssh_port = 0;         // 0: any free one
  // Set by the operator (TrainingJobSpec::InPlace). Unset by older operators: the program's name
  // decides.
  std::optional<bool> in_place{};
  // spec.elasticity.allowedSizes: of a world, in workers, ascending; empty: any.
  std::vector<int> allowed_sizes{};

  // True for an elastic job: the agent owns the ranks, which speak the rank protocol and continue
  // when the world changes. False for a direct job: ranks live in one world and restart for the
  // next.
  bool InPlace() const { return in_place.value_or(SpeaksRankProtocol(command)); }
  bool PerWorker() const { return ranks_per_process > 0; }
  // It says what mpirun is to do, so only mpirun can start its ranks.
  bool AsksForMpirun() const {
    return !mpi_extra_args.empty() || !mpi_pass_env.empty() || launch_agent != LaunchAgent::kAuto;
  }
};

std::string EncodeLaunchSpec(const LaunchSpec& spec);

// Fails with kInvalid if the text is not a JSON object, a field has the wrong type, the command is
// empty, or an interface has a name that other programs would take for something else.
Result<LaunchSpec> DecodeLaunchSpec(std::string_view text);

}  // namespace ringmaster::control
