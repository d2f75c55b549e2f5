#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

#include <boost/asio/io_context.hpp>

#include "common/process/captured_process.h"
#include "common/process/child_reaper.h"
#include "worker/agent/host/nvml.h"

namespace ringmaster::agent {
namespace {

class ListedNvml final : public Nvml {
 public:
  explicit ListedNvml(std::vector<GpuDevice> devices) : devices_(std::move(devices)) {}

  Result<std::vector<GpuDevice>> Devices() override { return devices_; }

  std::vector<GpuTrouble> Await(std::chrono::milliseconds limit) override {
    std::this_thread::sleep_for(limit);
    return {};
  }

 private:
  const std::vector<GpuDevice> devices_;
};

}  // namespace

Result<std::unique_ptr<Nvml>> Nvml::Open(const std::string& /*library*/) {
  ProcessSpec spec;
  spec.argv = {"nvidia-smi", "-L"};
  for (char** variable = environ; *variable != nullptr; ++variable) {
    spec.environment.emplace_back(*variable);
  }
  boost::asio::io_context io(1);
  ChildReaper reaper(io);
  std::string output;
  ProcessEnd end;
  const Result<std::shared_ptr<CapturedProcess>> started =
      CapturedProcess::Start(reaper, std::move(spec),
                             {.on_output = [&](bool, std::string_view data) { output += data; },
                              .on_end =
                                  [&](ProcessEnd ended, const LastLines&) {
                                    end = ended;
                                    io.stop();
                                  }});
  if (!started.ok()) return started.error();
  io.run();
  std::vector<GpuDevice> devices = ListedGpus(output);
  if (devices.empty() && end.exit_code != 0) {
    return Error{ErrorKind::kUnavailable, "nvidia-smi: " + output.substr(0, output.find('\n'))};
  }
  return std::unique_ptr<Nvml>(new ListedNvml(std::move(devices)));
}

}  // namespace ringmaster::agent
