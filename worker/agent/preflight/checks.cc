#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <sys/statvfs.h>
#include <unistd.h>

#include "common/base/count_text.h"
#include "common/control/agent_launcher_messages.h"
#include "common/process/process.h"
#include "worker/agent/host/address.h"
#include "worker/agent/host/sshd.h"
#include "worker/agent/preflight/preflight.h"

namespace ringmaster::agent {
namespace {

bool IsLegalLabel(std::string_view label) {
  const auto legal = [](unsigned char c) { return std::isalnum(c) != 0 || c == '-'; };
  return !label.empty() && label.size() <= 63 && label.front() != '-' && label.back() != '-' &&
         std::all_of(label.begin(), label.end(), legal);
}

bool IsGpuDevice(const std::string& name) {
  constexpr char kPrefix[] = "nvidia";
  const std::string number = name.starts_with(kPrefix) ? name.substr(sizeof kPrefix - 1) : "";
  return !number.empty() && std::all_of(number.begin(), number.end(),
                                        [](unsigned char c) { return std::isdigit(c) != 0; });
}

int GpuDevices() {
  int count = 0;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/dev", error)) {
    if (IsGpuDevice(entry.path().filename())) ++count;
  }
  return count;
}

// Describes the GPUs that do not answer and why, including GPUs that the driver has lost.
std::string SilentGpus(const Config& config, const std::vector<GpuDevice>& devices) {
  std::string text;
  const auto add = [&text](const std::string& uuid, const std::string& why) {
    text += (text.empty() ? "" : ", ") + (uuid.empty() ? std::string("one") : uuid) +
            " does not (" + why + ")";
  };
  const auto visible = config.container.find("NVIDIA_VISIBLE_DEVICES");
  std::vector<std::string> lost;
  if (visible != config.container.end()) lost = AssignedGpus(visible->second);
  for (const GpuDevice& device : devices) std::erase(lost, device.uuid);
  auto next_lost = lost.begin();
  for (const GpuDevice& device : devices) {
    if (device.fault.empty()) continue;
    // The driver does not report the UUID of a lost GPU, but the device plugin assigned it.
    const bool named = device.uuid.empty() && next_lost != lost.end();
    add(named ? *next_lost++ : device.uuid, device.fault);
  }
  while (next_lost != lost.end()) add(*next_lost++, "the driver does not list it");
  return text;
}

}  // namespace

std::optional<Finding> CheckSshd(const Config& config) {
  const bool no_use =
      config.spec.PerWorker() || config.spec.launch_agent == control::LaunchAgent::kAgent;
  if (no_use) return std::nullopt;
  if (FindSshd(config.Path()).empty()) {
    return Finding{control::kCheckSshd,
                   "the image has no sshd, so mpirun cannot reach this worker over ssh; install "
                   "openssh-server in it, or set spec.mpi.launchAgent to Agent"};
  }
  if (!config.user.empty()) return std::nullopt;
  return Finding{control::kCheckSshd,
                 "user " + std::to_string(geteuid()) +
                     " has no name in the image's /etc/passwd, so mpirun cannot log in to this "
                     "worker over ssh; add one, or set spec.mpi.launchAgent to Agent"};
}

// Checks that the daemon that mpirun starts on this host is in PATH.
std::optional<Finding> CheckMpiDaemon(const Config& config) {
  if (config.spec.PerWorker()) return std::nullopt;
  const std::string path = config.Path();
  if (!FindProgram("orted", path).empty() || !FindProgram("prted", path).empty()) {
    return std::nullopt;
  }
  return Finding{control::kCheckMpi,
                 "the image has neither orted (Open MPI 4) nor prted (Open MPI 5) in PATH (" +
                     path + "); install Open MPI in it"};
}

// Open MPI's session directory is in /tmp, and ssh and Ringmaster also keep files there.
std::optional<Finding> CheckScratchSpace(const Config& /*config*/) {
  constexpr unsigned long long kNeededBytes = 16ULL << 20;
  char name[] = "/tmp/.ringmaster-check-XXXXXX";
  const int file = mkstemp(name);
  if (file < 0) {
    return Finding{"tmp", std::string("/tmp is not writable (") + std::strerror(errno) +
                              "); mount a volume there, for example an emptyDir"};
  }
  unlink(name);
  struct statvfs status {};
  const bool known = fstatvfs(file, &status) == 0;
  close(file);
  const unsigned long long free_bytes =
      known ? static_cast<unsigned long long>(status.f_bavail) * status.f_frsize : kNeededBytes;
  if (free_bytes >= kNeededBytes) return std::nullopt;
  return Finding{"tmp", "/tmp has only " + std::to_string(free_bytes >> 10) +
                            " KiB free but needs 16 MiB; increase the size of its volume"};
}

// Ranks of one worker exchange data through /dev/shm. A small /dev/shm only makes training slower,
// so the finding is a warning.
std::optional<Finding> CheckSharedMemory(const Config& config) {
  struct statvfs status {};
  if (statvfs("/dev/shm", &status) != 0) {
    return Finding{"shm", "there is no /dev/shm; mount an emptyDir with medium Memory there",
                   false};
  }
  const unsigned long long size_mib =
      (static_cast<unsigned long long>(status.f_blocks) * status.f_frsize) >> 20;
  const auto slots = static_cast<unsigned long long>(config.spec.slots_per_worker);
  const unsigned long long wanted_mib = (config.gpus > 0 ? 1024 : 64) * slots;
  if (slots == 1 || size_mib >= wanted_mib) return std::nullopt;
  return Finding{"shm",
                 "/dev/shm has " + std::to_string(size_mib) + " MiB for " + std::to_string(slots) +
                     " ranks but needs " + std::to_string(wanted_mib) +
                     " MiB; mount an emptyDir with medium Memory there",
                 false};
}

bool IsLegalHostName(const std::string& name) {
  if (name.size() > 64) return false;
  std::string_view rest = name;
  while (true) {
    const std::size_t dot = rest.find('.');
    if (!IsLegalLabel(rest.substr(0, dot))) return false;
    if (dot == std::string_view::npos) return true;
    rest.remove_prefix(dot + 1);
  }
}

// Open MPI's daemons exchange host names. If a host name is invalid, they fail with an error that
// does not contain the name.
std::optional<Finding> CheckHostName(const Config& /*config*/) {
  std::array<char, 256> name{};
  gethostname(name.data(), name.size() - 1);
  if (IsLegalHostName(name.data())) return std::nullopt;
  return Finding{"hostname", "the host name \"" + std::string(name.data()) +
                                 "\" is invalid (expected labels of letters, digits and hyphens, "
                                 "separated by dots); set hostname in the Pod template"};
}

std::optional<Finding> CheckAddress(const Config& config) {
  const Result<std::string> address = FindAddress(config.launcher_address, config.spec.interfaces);
  if (address.ok()) return std::nullopt;
  return Finding{"network", address.error().message};
}

// A job that requested GPUs and got none must fail instead of training on the CPU.
std::optional<Finding> CheckGpus(const Config& config, const GpuList& gpus) {
  if (config.gpus == 0) return std::nullopt;
  const std::string assigned =
      "this worker was assigned " + CountText(config.gpus, "GPU") + " and ";
  if (gpus.hangs) {
    return Finding{"gpu", assigned + gpus.problem +
                              "; check the node's kernel log for Xid errors of the NVIDIA driver"};
  }
  if (!gpus.problem.empty()) {
    const int found = GpuDevices();
    if (found >= config.gpus) return std::nullopt;
    return Finding{"gpu", assigned + "has " + std::to_string(found) +
                              " /dev/nvidia* devices (NVML: " + gpus.problem +
                              "); check the node's driver, its device plugin and container "
                              "runtime, and NVIDIA_VISIBLE_DEVICES"};
  }
  const auto answer = std::ranges::count_if(
      gpus.devices, [](const GpuDevice& device) { return device.fault.empty(); });
  if (answer >= config.gpus) return std::nullopt;
  const std::string silent = SilentGpus(config, gpus.devices);
  return Finding{"gpu", assigned + std::to_string(answer) + " answer" +
                            (silent.empty() ? "" : "; " + silent) +
                            "; check the node's kernel log for Xid errors of the NVIDIA driver, "
                            "and its device plugin"};
}

std::map<std::string, Check> WorkerChecks() {
  return {{control::kCheckSshd, CheckSshd}, {control::kCheckMpi, CheckMpiDaemon},
          {"tmp", CheckScratchSpace},       {"shm", CheckSharedMemory},
          {"hostname", CheckHostName},      {"network", CheckAddress},
          {"command", CheckProgram},        {control::kCheckMpiProgram, CheckMpiProgram}};
}

}  // namespace ringmaster::agent
