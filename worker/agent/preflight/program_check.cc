// Checks whether the job's program can run here, before a rank starts.

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <sstream>
#include <string>
#include <string_view>
#include <unistd.h>
#include <vector>

#include "common/control/agent_launcher_messages.h"
#include "common/process/process.h"
#include "worker/agent/preflight/preflight.h"
#include "worker/agent/preflight/program_file.h"

namespace ringmaster::agent {
namespace {

// Returns whether an argument of torchrun, deepspeed or accelerate sets the rendezvous address.
bool NamesRendezvous(std::string_view argument) {
  constexpr std::array kMeetings = {"--rdzv", "--nnodes", "--master", "--main_process_ip",
                                    "--hostfile"};
  return std::ranges::any_of(kMeetings,
                             [&](const char* flag) { return argument.starts_with(flag); });
}

// If a shell's command line runs torchrun or "accelerate launch", which start ranks themselves,
// returns the program's name. Ignores names that may be arguments, for example of pip.
std::string StartedInShell(const std::vector<std::string>& command) {
  const std::string shell = std::filesystem::path(command.front()).filename();
  if (!shell.ends_with("sh") || command.size() < 3 || !command[1].ends_with('c')) return {};
  std::istringstream words(command[2]);
  std::string before;
  std::string starter;
  for (std::string word; words >> word; before = word) {
    if (NamesRendezvous(word)) return {};
    if (word == "torchrun" || word.ends_with("/torchrun")) starter = "torchrun";
    if (word == "launch" && before == "accelerate") starter = "accelerate launch";
  }
  return starter;
}

// Returns the name of a program that starts its own ranks without a rendezvous address; otherwise
// empty. Each such process forms a separate world, so the job would train one model per slot.
std::string StartsRanksOfItsOwn(const std::vector<std::string>& command) {
  if (const std::string in_shell = StartedInShell(command); !in_shell.empty()) return in_shell;
  constexpr std::array kStarters = {"torchrun", "accelerate", "deepspeed"};
  constexpr std::array kModules = {"torch.distributed.run", "torch.distributed.launch",
                                   "accelerate.commands.launch"};
  if (std::ranges::any_of(command, NamesRendezvous)) return {};
  const std::string program = std::filesystem::path(command.front()).filename();
  if (std::ranges::find(kStarters, program) != kStarters.end()) return program;
  const auto module = std::ranges::find(command, "-m");
  if (!program.starts_with("python") || std::ranges::distance(module, command.end()) < 2) return {};
  return std::ranges::find(kModules, module[1]) == kModules.end() ? "" : module[1];
}

// Returns the program if it cannot be executed here; otherwise empty.
std::string Missing(const std::string& program, const std::string& path) {
  if (program.empty()) return {};
  const std::string file = FindProgram(program, path);
  return file.empty() || access(file.c_str(), X_OK) != 0 ? program : "";
}

std::optional<Finding> Fault(std::string message) { return Finding{"command", std::move(message)}; }

}  // namespace

std::optional<Finding> CheckProgram(const Config& config) {
  const std::vector<std::string>& command = config.spec.command;
  const std::string& program = command.front();
  const std::string path = config.Path();
  const std::string file = FindProgram(program, path);
  if (file.empty()) {
    const bool in_one = command.size() == 1 && program.find(' ') != std::string::npos;
    return Fault("program \"" + program + "\" not found in PATH (" + path + "); " +
                 (in_one ? "spec.command has a single item: write each word as a separate item"
                         : "correct spec.command or the image"));
  }
  if (access(file.c_str(), X_OK) != 0) {
    return Fault("cannot execute \"" + file + "\": " + std::strerror(errno) +
                 "; correct spec.command or the image");
  }
  const ProgramFile found(file);
  if (const std::string machine = found.OtherMachine(); !machine.empty()) {
    return Fault(
        "\"" + file + "\" is built for " + machine + " and this node is " + ThisMachine() +
        "; use an image for this architecture or select other nodes with worker.nodeSelector");
  }
  for (const std::string& interpreter : found.Interpreters()) {
    const std::string missing = Missing(interpreter, path);
    if (missing.empty()) continue;
    return Fault("\"" + file + "\" needs " + missing +
                 ", the interpreter in its first line, which the image lacks; install it or "
                 "correct the script");
  }
  if (const std::string missing = Missing(found.Loader(), path); !missing.empty()) {
    return Fault("\"" + file + "\" needs the loader " + missing +
                 ", which the image lacks, because it is built for another C library; use a "
                 "program and an image with the same C library");
  }
  if (config.spec.PerWorker()) return std::nullopt;
  const std::string starter = StartsRanksOfItsOwn(command);
  if (starter.empty()) return std::nullopt;
  if (config.spec.InPlace()) {
    return Fault(
        starter +
        " starts ranks itself, but in mode InPlace each process that Ringmaster starts is a rank: "
        "use the script's own command (python train.py), which Ringmaster starts once per slot");
  }
  return Fault(starter +
               " starts ranks itself, so each rank of the job would start its own separate world; "
               "set spec.launchMode: PerWorker, which starts it once per worker");
}

// Without mpirun, an MPI program would run as a world of one rank and report no error.
std::optional<Finding> CheckMpiProgram(const Config& config) {
  if (config.spec.InPlace() || config.spec.PerWorker()) return std::nullopt;
  const std::vector<std::string>& command = config.spec.command;
  const std::string name = config.user.empty()
                               ? " and a name for user " + std::to_string(::geteuid()) +
                                     " in /etc/passwd, which it requires"
                               : "";
  const auto needs = [&name](const std::string& file, const std::string& mpi) {
    return Finding{control::kCheckMpiProgram,
                   "\"" + file + "\" needs MPI (" + mpi +
                       "), but mpirun cannot start ranks on this worker: use an image with Open "
                       "MPI 4 or 5 (mpirun and orted or prted in PATH)" +
                       name};
  };
  const std::string program = FindProgram(command.front(), config.Path());
  if (const std::string mpi = ProgramFile(program).NeededMpi(); !mpi.empty()) {
    return needs(program, mpi);
  }
  for (const std::string& word : command) {
    const std::string mpi = ImportedModule(word, {"mpi4py", "horovod"});
    if (!mpi.empty()) return needs(word, mpi);
  }
  return std::nullopt;
}

}  // namespace ringmaster::agent
