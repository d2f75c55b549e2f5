#include "worker/launcher/model/config.h"

#include <charconv>
#include <cstdint>
#include <filesystem>
#include <sstream>
#include <unistd.h>
#include <utility>

#include "common/control/pod_contract.h"

namespace ringmaster::launcher {
namespace {

std::string Text(const Environment& environment, const char* name, const std::string& fallback) {
  const auto found = environment.find(name);
  return found == environment.end() || found->second.empty() ? fallback : found->second;
}

Result<int64_t> Number(const Environment& environment, const char* name, int64_t fallback,
                       int64_t limit) {
  const std::string text = Text(environment, name, std::to_string(fallback));
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0 || value > limit) {
    return Error{ErrorKind::kInvalid, std::string(name) + " is '" + text +
                                          "', but must be an integer from 0 to " +
                                          std::to_string(limit)};
  }
  return value;
}

Result<void> ReadExitCodes(const Environment& environment, const char* name, std::set<int>& out) {
  std::istringstream codes(Text(environment, name, ""));
  for (std::string code; std::getline(codes, code, ',');) {
    const Result<int64_t> number = Number({{name, code}}, name, -1, 255);
    if (!number.ok()) return number.error();
    out.insert(static_cast<int>(*number));
  }
  return {};
}

// Returns the path of another Ringmaster program: in this program's folder, or else in /usr/bin.
std::string SiblingProgram(const char* name) {
  std::error_code error;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", error);
  const std::string sibling = (self.parent_path() / name).string();
  return !error && ::access(sibling.c_str(), X_OK) == 0 ? sibling : std::string("/usr/bin/") + name;
}

}  // namespace

Environment ProcessEnvironment() {
  Environment environment;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    const auto equals = text.find('=');
    if (equals != std::string::npos) environment[text.substr(0, equals)] = text.substr(equals + 1);
  }
  return environment;
}

Result<Config> ReadConfig(const Environment& environment) {
  Config config;
  for (const char* name : {control::kEnvJobUid, control::kEnvLaunchSpec, control::kEnvTerm}) {
    if (Text(environment, name, "").empty()) {
      return Error{ErrorKind::kInvalid, std::string(name) + " is not set"};
    }
  }
  config.job = Text(environment, control::kEnvNamespace, "default") + "/" +
               Text(environment, control::kEnvJobName, "job");
  config.job_uid = Text(environment, control::kEnvJobUid, "");
  auto spec = control::DecodeLaunchSpec(Text(environment, control::kEnvLaunchSpec, ""));
  if (!spec.ok())
    return Error{spec.error()}.WithContext(std::string("reading ") + control::kEnvLaunchSpec);
  config.spec = std::move(*spec);
  config.credentials_dir = Text(environment, control::kEnvCredentialsDir, control::kCredentialsDir);
  config.item_hashes = Text(environment, control::kEnvItemHashes, "{}");
  config.runtime_dir = Text(environment, control::kEnvRuntimeDir, control::kRuntimeDir);
  config.termination_log = Text(environment, control::kEnvTerminationLog, control::kTerminationLog);

  const auto term = Number(environment, control::kEnvTerm, 0, INT64_MAX);
  if (!term.ok()) return term.error();
  config.term = *term;
  const auto control_port =
      Number(environment, control::kEnvControlPort, control::kControlPort, 65535);
  if (!control_port.ok()) return control_port.error();
  config.control_port = static_cast<int>(*control_port);
  const auto api_port = Number(environment, control::kEnvApiPort, control::kApiPort, 65535);
  if (!api_port.ok()) return api_port.error();
  config.api_port = static_cast<int>(*api_port);

  const auto heartbeat = Number(environment, control::kEnvHeartbeatMillis, 100, 10'000);
  if (!heartbeat.ok()) return heartbeat.error();
  config.heartbeat = std::chrono::milliseconds(*heartbeat);
  const auto lost_after = Number(environment, control::kEnvLostAfterMillis, 2000, 600'000);
  if (!lost_after.ok()) return lost_after.error();
  config.lost_after = std::chrono::milliseconds(*lost_after);
  if (*heartbeat < 10 || *lost_after < 2 * *heartbeat) {
    return Error{ErrorKind::kInvalid,
                 std::string(control::kEnvLostAfterMillis) + " is " + std::to_string(*lost_after) +
                     ", but must be at least twice the heartbeat interval of " +
                     std::to_string(*heartbeat) + " ms, which must be at least 10 ms"};
  }
  const int stall_default = config.spec.InPlace() ? 2000 : 0;  // other programs may print nothing
  const auto stall_floor = Number(environment, control::kEnvStallMillis, stall_default, 3'600'000);
  if (!stall_floor.ok()) return stall_floor.error();
  config.stall_floor = std::chrono::milliseconds(*stall_floor);
  const auto start_wait = Number(environment, control::kEnvStartWaitSeconds, 30, 86'400);
  if (!start_wait.ok()) return start_wait.error();
  config.start_wait = std::chrono::seconds(*start_wait);
  const auto stop_grace = Number(environment, control::kEnvStopGraceSeconds, 1, 3600);
  if (!stop_grace.ok()) return stop_grace.error();
  config.stop_grace = std::chrono::seconds(*stop_grace);
  const auto restart_limit = Number(environment, control::kEnvRestartLimit, 10, 1'000'000);
  if (!restart_limit.ok()) return restart_limit.error();
  config.restart_limit = static_cast<int>(*restart_limit);
  const auto window = Number(environment, control::kEnvRestartWindowSeconds, 3600, 1'000'000);
  if (!window.ok()) return window.error();
  config.restart_window = std::chrono::seconds(*window);
  const auto crash_limit = Number(environment, control::kEnvCrashLimit, 5, 1'000'000);
  if (!crash_limit.ok()) return crash_limit.error();
  config.crash_limit = static_cast<int>(*crash_limit);
  for (const auto& [name, codes] :
       {std::pair(control::kEnvFailOnExitCodes, &config.exit_codes.fail),
        std::pair(control::kEnvIgnoreExitCodes, &config.exit_codes.ignored)}) {
    if (auto read = ReadExitCodes(environment, name, *codes); !read.ok()) return read.error();
  }

  config.attach = SiblingProgram(control::kAttachProgram);
  config.rsh = SiblingProgram(control::kRshProgram);
  config.environment = environment;
  return config;
}

}  // namespace ringmaster::launcher
