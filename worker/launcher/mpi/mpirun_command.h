#pragma once

// Builds the mpirun command for each generation of Open MPI, as argv and environment, without a
// shell. Each generation silently ignores the other's option names, so the command depends on
// the installed generation, and the start gate (start_gate.h) verifies which processes mpirun
// started. Pure functions.

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "common/control/interfaces.h"

namespace ringmaster::launcher {

enum class MpiFlavour { kOpenMpi4, kOpenMpi5 };

struct MpiVersion {
  MpiFlavour flavour = MpiFlavour::kOpenMpi4;
  std::string version;  // for example "4.1.4"
};

// Parses the output of `mpirun --version`. kInvalid: it is not Open MPI 4 or 5.
Result<MpiVersion> ParseMpiVersion(std::string_view output);

struct MpirunPlan {
  MpiFlavour flavour = MpiFlavour::kOpenMpi4;
  std::string mpirun =
      "mpirun";  // argv[0]; if it is absolute, mpirun adds its folder to PATH on the workers
  bool as_root = false;
  int world_size = 1;
  int hosts = 1;
  std::string hostfile;
  // mpirun reaches the hosts over ssh with this configuration or, if `rsh` is not empty, with
  // ringmaster-rsh through the launcher's socket.
  std::string ssh_config;
  std::string rsh;
  std::string rsh_socket;
  control::Interfaces interfaces;  // for ranks
  bool interface_here = false;     // whether the launcher has an included interface
  // PyTorch's rendezvous (init_method env://): rank 0's host, and a port; 0: no port.
  std::string master_address;
  int master_port = 0;
  std::vector<std::string> export_env;  // more variables to pass to the processes
  std::vector<std::string> extra_args;  // the user's arguments for mpirun
  std::vector<std::string> program;     // the program that mpirun starts in every slot
};

std::vector<std::string> MpirunArguments(const MpirunPlan& plan);

// Selects the variables of `own` (name → value) that mpirun may see, and adds the settings for both
// generations. mpirun, ssh and workers get no other part of the launcher's environment.
std::map<std::string, std::string> MpirunEnvironment(const MpirunPlan& plan,
                                                     const std::map<std::string, std::string>& own);

// Returns whether the user's arguments set the directory in which mpirun starts programs.
bool ChoosesDirectory(const std::vector<std::string>& extra_args);

// Returns a command quoted for a shell; used in logs.
std::string QuoteCommand(const std::vector<std::string>& words);

}  // namespace ringmaster::launcher
