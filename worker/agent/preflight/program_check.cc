// Whether the job's program can run here, told before a rank starts.

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <elf.h>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>
#include <unistd.h>
#include <vector>

#include "common/control/agent_launcher_messages.h"
#include "common/process/process.h"
#include "worker/agent/preflight/preflight.h"

namespace ringmaster::agent {
namespace {

#if defined(__x86_64__)
constexpr int kMachine = EM_X86_64;
#elif defined(__aarch64__)
constexpr int kMachine = EM_AARCH64;
#else
#error "say which machine this is"
#endif

constexpr std::size_t kLookedAt = 256;  // bytes of the file; the kernel takes no longer first line
constexpr std::size_t kNamesWithin = 4 << 20;  // of a file that needs or imports others

std::string NameOfMachine(int machine) {
  switch (machine) {
    case EM_X86_64:
      return "x86-64";
    case EM_AARCH64:
      return "arm64";
    case EM_386:
      return "32-bit x86";
    case EM_PPC64:
      return "ppc64";
    case EM_S390:
      return "s390x";
    case EM_RISCV:
      return "riscv";
    default:
      return "machine " + std::to_string(machine);
  }
}

std::string BeginningOf(const std::string& file, std::size_t size = kLookedAt) {
  std::string bytes(size, '\0');
  std::ifstream stream(file, std::ios::binary);
  stream.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  bytes.resize(static_cast<std::size_t>(stream.gcount()));
  return bytes;
}

// Of an ELF file for another machine, which one; empty for any other file.
std::string OtherMachine(const std::string& beginning) {
  Elf64_Ehdr header{};
  if (!beginning.starts_with(ELFMAG) || beginning.size() < sizeof header) return {};
  std::memcpy(&header, beginning.data(), sizeof header);
  return header.e_machine == kMachine ? "" : NameOfMachine(header.e_machine);
}

// What a script's first line names and this image lacks; empty for any other file.
std::string MissingInterpreter(const std::string& beginning, const std::string& path) {
  if (!beginning.starts_with("#!")) return {};
  std::istringstream words(beginning.substr(2, beginning.find('\n') - 2));
  std::string interpreter;
  std::string argument;
  words >> interpreter >> argument;
  if (interpreter.empty()) return {};
  if (access(interpreter.c_str(), X_OK) != 0) return interpreter;
  const bool by_name = std::filesystem::path(interpreter).filename() == "env" &&
                       !argument.empty() && argument.front() != '-';
  return by_name && FindProgram(argument, path).empty() ? argument : "";
}

// Whether an argument tells a program that starts ranks of its own where to meet the others.
bool NamesRendezvous(std::string_view argument) {
  constexpr std::array kMeetings = {"--rdzv", "--nnodes", "--master", "--main_process_ip",
                                    "--hostfile"};
  return std::ranges::any_of(kMeetings,
                             [&](const char* flag) { return argument.starts_with(flag); });
}

// A program in a shell's command line that starts ranks of its own. Names that may be arguments, of
// pip for example, are not looked for.
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

// Programs that start ranks of their own. Given nobody to meet, each is a world by itself, and the
// job trains as many models as it has slots.
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

// The library of MPI that an ELF file names as one that it needs; empty for any other file.
std::string NeededMpi(const std::string& file) {
  const std::string bytes = BeginningOf(file, kNamesWithin);
  if (!bytes.starts_with(ELFMAG)) return {};
  for (const std::string_view library : {"libmpi.so", "libmpich.so", "libmpi_cxx.so"}) {
    // Names stand between NULs there.
    const std::size_t at = bytes.find(std::string(1, '\0').append(library));
    if (at != std::string::npos) return bytes.c_str() + at + 1;
  }
  return {};
}

// The module of MPI that a Python script imports whatever happens; empty for any other file.
std::string ImportedMpi(const std::string& file) {
  if (!file.ends_with(".py")) return {};
  std::istringstream lines(BeginningOf(file, kNamesWithin));
  for (std::string line; std::getline(lines, line);) {
    for (const std::string_view module : {"mpi4py", "horovod"}) {
      for (const std::string_view word : {"import ", "from "}) {
        if (line.starts_with(std::string(word).append(module))) return std::string(module);
      }
    }
  }
  return {};
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
    return Fault("there is no program \"" + program + "\" in PATH (" + path + "); " +
                 (in_one ? "spec.command is one item: write each word of it as an item of its own"
                         : "correct spec.command or the image"));
  }
  if (access(file.c_str(), X_OK) != 0) {
    return Fault("cannot execute \"" + file + "\": " + std::strerror(errno) +
                 "; correct spec.command or the image");
  }
  const std::string beginning = BeginningOf(file);
  if (const std::string machine = OtherMachine(beginning); !machine.empty()) {
    return Fault("\"" + file + "\" is built for " + machine + " and this node is " +
                 NameOfMachine(kMachine) +
                 "; use an image for it, or name other nodes in worker.nodeSelector");
  }
  if (const std::string missing = MissingInterpreter(beginning, path); !missing.empty()) {
    return Fault("\"" + file + "\" needs " + missing +
                 ", which its first line names and the image lacks; install it, or correct the "
                 "script");
  }
  const bool one_of_many = !config.spec.InPlace() && !config.spec.PerWorker();
  const std::string starter = one_of_many ? StartsRanksOfItsOwn(command) : std::string();
  if (!starter.empty()) {
    return Fault(starter +
                 " starts ranks by itself, and each of the job's ranks would start one that meets "
                 "no other; set spec.launchMode: PerWorker, which starts it once per worker");
  }
  return std::nullopt;
}

// A program of MPI that is not started by mpirun is a world of one rank, and nothing tells it so.
std::optional<Finding> CheckMpiProgram(const Config& config) {
  if (config.spec.InPlace() || config.spec.PerWorker()) return std::nullopt;
  const std::vector<std::string>& command = config.spec.command;
  const std::string name = config.user.empty()
                               ? " and a name for user " + std::to_string(::geteuid()) +
                                     ", without which it starts nothing, in /etc/passwd"
                               : "";
  const auto needs = [&name](const std::string& file, const std::string& mpi) {
    return Finding{control::kCheckMpiProgram,
                   "\"" + file + "\" needs MPI (" + mpi +
                       "), and mpirun, which has to start its ranks then, cannot do so here: use "
                       "an image with Open MPI 4 or 5 (mpirun, orted or prted, in PATH)" +
                       name};
  };
  const std::string program = FindProgram(command.front(), config.Path());
  if (const std::string mpi = NeededMpi(program); !mpi.empty()) return needs(program, mpi);
  for (const std::string& word : command) {
    if (const std::string mpi = ImportedMpi(word); !mpi.empty()) return needs(word, mpi);
  }
  return std::nullopt;
}

}  // namespace ringmaster::agent
