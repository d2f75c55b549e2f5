#include "worker/agent/config/config.h"

#include <charconv>
#include <utility>

#include <boost/asio/ip/address.hpp>

#include "common/control/pod_contract.h"

namespace ringmaster::agent {
namespace {

// Reads the environment variables one by one and keeps the first error.
class Reader {
 public:
  explicit Reader(const Environment& environment) : environment_(environment) {}

  std::string Text(const std::string& name, const std::string& otherwise) const {
    const auto variable = environment_.find(name);
    return variable == environment_.end() || variable->second.empty() ? otherwise
                                                                      : variable->second;
  }

  std::string Required(const std::string& name) {
    std::string value = Text(name, "");
    if (value.empty()) Fail(name, "it is not set");
    return value;
  }

  int Number(const std::string& name, int otherwise, int lowest, int highest) {
    const std::string text = Text(name, std::to_string(otherwise));
    int number = 0;
    const char* const end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, number);
    if (error != std::errc() || stop != end || number < lowest || number > highest) {
      Fail(name, "\"" + text + "\" is not a number from " + std::to_string(lowest) + " to " +
                     std::to_string(highest));
    }
    return number;
  }

  void Fail(const std::string& name, const std::string& why) {
    if (message_.empty()) message_ = "while reading the environment: " + name + ": " + why;
  }

  const std::string& message() const { return message_; }

 private:
  const Environment& environment_;
  std::string message_;
};

}  // namespace

Environment ProcessEnvironment(char** environ) {
  Environment environment;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    const std::size_t equals = text.find('=');
    if (equals != std::string::npos) environment[text.substr(0, equals)] = text.substr(equals + 1);
  }
  return environment;
}

std::string Config::Path() const {
  const auto variable = container.find("PATH");
  return variable == container.end() ? "" : variable->second;
}

void PutFirstInPythonPath(const std::filesystem::path& folder, Environment& container) {
  std::string& path = container["PYTHONPATH"];
  path = path.empty() ? folder.string() : folder.string() + ':' + path;
}

Result<Config> ReadConfig(const Environment& environment) {
  Reader reader(environment);
  Config config;
  config.job_name = reader.Required(control::kEnvJobName);
  config.job_namespace = reader.Text(control::kEnvNamespace, "");
  config.job_uid = reader.Required(control::kEnvJobUid);
  config.pod = reader.Required(control::kEnvPodName);
  config.pod_uid = reader.Required(control::kEnvPodUid);
  config.node = reader.Text(control::kEnvNodeName, "");
  config.worker_index = reader.Number(control::kEnvWorkerIndex, 0, 0, 1'000'000);
  config.launcher_address = reader.Required(control::kEnvLauncherAddress);
  config.launcher_port = reader.Number(control::kEnvLauncherPort, control::kControlPort, 1, 65535);
  config.gpus = reader.Number(control::kEnvGpus, 0, 0, 1024);
  config.nvml_library = reader.Text(control::kEnvNvmlLibrary, control::kNvmlLibrary);
  config.credentials_dir = reader.Text(control::kEnvCredentialsDir, control::kCredentialsDir);
  config.runtime_dir = reader.Text(control::kEnvRuntimeDir, control::kRuntimeDir);
  config.snapshot_dir =
      std::filesystem::path(reader.Text(control::kEnvSnapshotDir, control::kSnapshotDir)) /
      ("ringmaster-" + config.pod_uid);
  config.item_hashes = reader.Required(control::kEnvItemHashes);
  config.load_limit = std::chrono::milliseconds(
      reader.Number(control::kEnvLoadLimitMillis, 600'000, 100, 86'400'000));
  if (const int grace = reader.Number(control::kEnvStopGraceSeconds, 0, 0, 3600); grace > 0) {
    config.stop_grace = std::chrono::seconds(grace);
  }
  if (const std::string source = reader.Text(control::kEnvDataSource, ""); !source.empty()) {
    config.data_cache = {source, reader.Text(control::kEnvDataSubPath, ""),
                         reader.Required(control::kEnvDataDir)};
  }
  config.container = environment;

  boost::system::error_code not_an_address;
  boost::asio::ip::make_address(config.launcher_address, not_an_address);
  if (not_an_address) {
    reader.Fail(control::kEnvLauncherAddress,
                "\"" + config.launcher_address + "\" is not an IP address");
  }
  Result<control::LaunchSpec> spec =
      control::DecodeLaunchSpec(reader.Required(control::kEnvLaunchSpec));
  if (spec.ok()) {
    config.spec = *std::move(spec);
  } else {
    reader.Fail(control::kEnvLaunchSpec, spec.error().message);
  }
  if (!reader.message().empty()) return Error{ErrorKind::kInvalid, reader.message()};
  return config;
}

}  // namespace ringmaster::agent
