#include "common/control/launch_spec.h"

#include <algorithm>

#include "common/control/pod_contract.h"
#include "common/json/fields.h"
#include "common/json/forms.h"

namespace ringmaster::control {
namespace {

// ringmaster-bench uses the trainer's protocol, unless it measures MPI itself.
constexpr char kBenchProgram[] = "ringmaster-bench";
constexpr char kBenchOverMpi[] = "--backend=mpi";

}  // namespace

void Describe(auto& a, Is<LaunchSpec> auto& v) {
  a.Field("command", v.command);
  a.Optional("slotsPerWorker", v.slots_per_worker);
  a.Sparse("ranksPerProcess", v.ranks_per_process);
  a.Optional("mpiExtraArgs", v.mpi_extra_args);
  a.Optional("mpiPassEnv", v.mpi_pass_env);
  a.Sparse("launchAgent", v.launch_agent, LaunchAgent::kAuto,
           AsWord(kLaunchAgents, LaunchAgent::kAuto));
  a.Sparse("interfaces", v.interfaces.include);
  a.Sparse("excludeInterfaces", v.interfaces.exclude);
  a.Optional("sshPort", v.ssh_port);
  a.Sparse("inPlace", v.in_place);
  a.Sparse("allowedSizes", v.allowed_sizes);
}

bool SpeaksRankProtocol(const std::vector<std::string>& command) {
  if (command.empty()) return false;
  const std::string& program = command.front();
  const auto slash = program.rfind('/');
  const std::string name = program.substr(slash == std::string::npos ? 0 : slash + 1);
  if (name == kBenchProgram) return std::ranges::find(command, kBenchOverMpi) == command.end();
  return name == kTrainProgram;
}

std::string EncodeLaunchSpec(const LaunchSpec& spec) { return EncodeJson(spec); }

Result<LaunchSpec> DecodeLaunchSpec(std::string_view text) {
  const auto fail = [](const std::string& reason) {
    return Error{ErrorKind::kInvalid, "while reading the launch spec: " + reason};
  };
  Result<LaunchSpec> spec = DecodeJson<LaunchSpec>(text);
  if (!spec.ok()) return fail(spec.error().message);
  if (spec->command.empty() || spec->command.front().empty()) return fail("the command is empty");
  // A NUL would silently truncate the argument when it becomes a C string.
  for (const auto* list : {&spec->command, &spec->mpi_extra_args, &spec->mpi_pass_env}) {
    for (const std::string& text_item : *list) {
      if (text_item.find('\0') != std::string::npos) return fail("an argument contains a NUL byte");
    }
  }
  for (const auto* names : {&spec->interfaces.include, &spec->interfaces.exclude}) {
    for (const std::string& name : *names) {
      if (!IsInterfaceName(name)) return fail("\"" + name + "\" is not an interface name");
    }
  }
  if (!spec->interfaces.include.empty() && !spec->interfaces.exclude.empty()) {
    return fail("interfaces and excludeInterfaces are both set");
  }
  if (spec->slots_per_worker < 1) return fail("slotsPerWorker is below 1");
  if (spec->ranks_per_process < 0) return fail("ranksPerProcess is below 0");
  if (spec->PerWorker() && (spec->slots_per_worker != 1 || spec->InPlace())) {
    return fail("a program with one process per worker requires slotsPerWorker 1 and mode Restart");
  }
  if (!std::ranges::is_sorted(spec->allowed_sizes) ||
      (!spec->allowed_sizes.empty() && (spec->allowed_sizes.front() < 1 || spec->InPlace()))) {
    return fail("allowedSizes must be above 0, ascending and used in mode Restart only");
  }
  if (spec->ssh_port < 0 || spec->ssh_port > 65535) return fail("sshPort is not a valid port");
  return spec;
}

}  // namespace ringmaster::control
