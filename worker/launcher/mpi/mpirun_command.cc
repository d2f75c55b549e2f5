#include "worker/launcher/mpi/mpirun_command.h"

#include <algorithm>
#include <array>
#include <cctype>

namespace ringmaster::launcher {
namespace {

using Words = std::vector<std::string>;

// The maximum number of parallel ssh processes. Each takes a few MiB of the launcher's memory.
constexpr int kMostSshs = 64;

void Add(Words& words, std::initializer_list<std::string> more) {
  words.insert(words.end(), more.begin(), more.end());
}

bool AllowedName(const std::string& name, const MpirunPlan& plan) {
  static constexpr std::array<std::string_view, 9> kNames = {
      "PATH", "HOME", "USER", "LOGNAME", "LANG", "TZ", "TMPDIR", "LD_LIBRARY_PATH", "SHELL"};
  static constexpr std::array<std::string_view, 6> kPrefixes = {
      "OMPI_MCA_", "PRTE_MCA_", "PMIX_MCA_", "OPAL_", "LC_", "NCCL_"};
  const auto starts = [&](std::string_view prefix) { return name.rfind(prefix, 0) == 0; };
  return std::find(kNames.begin(), kNames.end(), name) != kNames.end() ||
         std::any_of(kPrefixes.begin(), kPrefixes.end(), starts) ||
         std::find(plan.export_env.begin(), plan.export_env.end(), name) != plan.export_env.end();
}

// Returns whether the user sets or passes on a variable with this name.
bool Names(std::string_view variable, const MpirunPlan& plan) {
  const auto is_it = [&](std::string_view word) {
    return word == variable || (word.starts_with(variable) && word[variable.size()] == '=');
  };
  return std::any_of(plan.export_env.begin(), plan.export_env.end(), is_it) ||
         std::any_of(plan.extra_args.begin(), plan.extra_args.end(), is_it);
}

// Returns the arguments of ssh or ringmaster-rsh, with which mpirun starts its daemons.
std::string AgentArguments(const MpirunPlan& plan) {
  return plan.rsh.empty() ? "-F " + plan.ssh_config : "--socket=" + plan.rsh_socket;
}

// Adds the network interfaces for MPI, mpirun and its daemons, NCCL, and PyTorch's Gloo.
void AddInterfaces(const MpirunPlan& plan, const std::string& runtime, Words& words) {
  const std::string daemons = plan.flavour == MpiFlavour::kOpenMpi5 ? "prte_if_" : "oob_tcp_if_";
  const control::Interfaces& interfaces = plan.interfaces;
  if (!interfaces.include.empty()) {
    const std::string list = control::InterfaceList(interfaces.include);
    Add(words, {"--mca", "btl_tcp_if_include", list});
    if (plan.interface_here) Add(words, {runtime, daemons + "include", list});
    Add(words, {"-x", "GLOO_SOCKET_IFNAME=" + list});
  } else if (!interfaces.exclude.empty()) {
    const std::string list = control::InterfaceList(control::ExcludedWithLoopback(interfaces));
    Add(words, {"--mca", "btl_tcp_if_exclude", list});
    Add(words, {runtime, daemons + "exclude", control::InterfaceList(interfaces.exclude)});
  }
  const std::string nccl = control::NcclInterfaces(interfaces);
  if (!nccl.empty()) Add(words, {"-x", "NCCL_SOCKET_IFNAME=" + nccl});
}

}  // namespace

Result<MpiVersion> ParseMpiVersion(std::string_view output) {
  const auto fail = [&] {
    return Error{ErrorKind::kInvalid,
                 "this mpirun is neither Open MPI 4 nor 5; it says: " +
                     std::string(output.substr(0, std::min<std::size_t>(output.find('\n'), 120)))};
  };
  constexpr std::string_view kName = "(Open MPI) ";
  const std::size_t at = output.find(kName);
  if (at == std::string_view::npos) return fail();
  std::string_view rest = output.substr(at + kName.size());
  const auto end =
      std::find_if(rest.begin(), rest.end(), [](unsigned char c) { return std::isspace(c); });
  const std::string version(rest.begin(), end);
  if (version.rfind("4.", 0) == 0) return MpiVersion{MpiFlavour::kOpenMpi4, version};
  if (version.rfind("5.", 0) == 0) return MpiVersion{MpiFlavour::kOpenMpi5, version};
  return fail();
}

std::vector<std::string> MpirunArguments(const MpirunPlan& plan) {
  const bool five = plan.flavour == MpiFlavour::kOpenMpi5;
  const std::string runtime = five ? "--prtemca" : "--mca";
  const std::string ssh = five ? "plm_ssh_" : "plm_rsh_";
  Words words = {plan.mpirun};
  if (plan.as_root) Add(words, {"--allow-run-as-root"});
  if (five) {
    Add(words, {"--output", "tag"});
  } else {
    Add(words, {"--tag-output"});
  }
  Add(words, {"-np", std::to_string(plan.world_size), "--hostfile", plan.hostfile});
  Add(words, {"--bind-to", "none", "--map-by", "slot", "--mca", "pml", "ob1"});
  // Open MPI 5 does not have this component.
  if (!five) Add(words, {"--mca", "btl", "^openib"});
  // Only the launcher has the private key, and agents accept commands only from the launcher, so
  // workers never start the daemons of other workers.
  Add(words, {runtime, ssh + "no_tree_spawn", "1"});
  Add(words, {runtime, ssh + "num_concurrent", std::to_string(std::min(plan.hosts, kMostSshs))});
  if (!plan.rsh.empty()) Add(words, {runtime, ssh + "agent", plan.rsh});
  Add(words, {runtime, ssh + "args", AgentArguments(plan)});
  AddInterfaces(plan, runtime, words);
  const bool theirs = Names("MASTER_ADDR", plan) || Names("MASTER_PORT", plan);
  if (plan.master_port > 0 && !theirs) {
    Add(words, {"-x", "MASTER_ADDR=" + plan.master_address});
    Add(words, {"-x", "MASTER_PORT=" + std::to_string(plan.master_port)});
  }
  for (const std::string& name : plan.export_env) Add(words, {"-x", name});
  words.insert(words.end(), plan.extra_args.begin(), plan.extra_args.end());
  words.insert(words.end(), plan.program.begin(), plan.program.end());
  return words;
}

std::map<std::string, std::string> MpirunEnvironment(
    const MpirunPlan& plan, const std::map<std::string, std::string>& own) {
  std::map<std::string, std::string> environment;
  for (const auto& [name, value] : own) {
    if (AllowedName(name, plan)) environment[name] = value;
  }
  // Set the same options as on the command line, for both Open MPI 4 and 5, so that they apply to
  // any mpirun that is started, and the private key stays in this Pod.
  for (const std::string prefix : {"OMPI_MCA_plm_rsh_", "PRTE_MCA_plm_ssh_"}) {
    environment[prefix + "no_tree_spawn"] = "1";
    environment[prefix + "args"] = AgentArguments(plan);
    if (!plan.rsh.empty()) environment[prefix + "agent"] = plan.rsh;
  }
  return environment;
}

bool ChoosesDirectory(const std::vector<std::string>& extra_args) {
  static constexpr std::array<std::string_view, 4> kFlags = {"--wdir", "-wdir", "--wd", "-wd"};
  return std::any_of(extra_args.begin(), extra_args.end(), [](const std::string& argument) {
    const std::string_view flag = std::string_view(argument).substr(0, argument.find('='));
    return std::find(kFlags.begin(), kFlags.end(), flag) != kFlags.end();
  });
}

std::string QuoteCommand(const std::vector<std::string>& words) {
  const auto plain = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
           std::string_view("-_./=:,^@%+").find(c) != std::string_view::npos;
  };
  std::string line;
  for (const std::string& word : words) {
    if (!line.empty()) line += ' ';
    if (!word.empty() && std::all_of(word.begin(), word.end(), plain)) {
      line += word;
      continue;
    }
    line += '\'';
    for (const char c : word) line += c == '\'' ? std::string("'\\''") : std::string(1, c);
    line += '\'';
  }
  return line;
}

}  // namespace ringmaster::launcher
