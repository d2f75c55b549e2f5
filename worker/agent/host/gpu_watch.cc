#include "worker/agent/host/gpu_watch.h"

#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <utility>

#include <boost/asio/post.hpp>

#include "common/base/log.h"
#include "worker/agent/host/nvml.h"

namespace ringmaster::agent {
namespace {

constexpr std::chrono::milliseconds kEventWait{1000};
constexpr std::chrono::milliseconds kEndGrace{100};
constexpr std::size_t kLongestLine = 4096;

// The child process prints lines that begin with one of these words. Tabs separate the fields.
constexpr std::string_view kDevice = "device";    // UUID, fault
constexpr std::string_view kAll = "all";          // the list of devices is complete
constexpr std::string_view kNone = "none";        // the reason
constexpr std::string_view kTrouble = "trouble";  // UUID, Xid, fault

std::string NextField(std::string_view& line) {
  const std::size_t tab = line.find('\t');
  std::string field(line.substr(0, tab));
  line.remove_prefix(tab == std::string_view::npos ? line.size() : tab + 1);
  return field;
}

void Print(std::string_view word, const std::vector<std::string>& fields) {
  std::string line(word);
  for (const std::string& field : fields) line += '\t' + field;
  std::puts(line.c_str());
  std::fflush(stdout);
}

}  // namespace

GpuWatch::GpuWatch(boost::asio::io_context& io, ChildReaper& reaper, Options options,
                   Handlers handlers)
    : reaper_(reaper), options_(std::move(options)), handlers_(std::move(handlers)), limit_(io) {
  limit_.expires_after(std::chrono::milliseconds(0));
  limit_.async_wait([this](const boost::system::error_code& cancelled) {
    if (!cancelled) Start();
  });
}

GpuWatch::~GpuWatch() { Stop(); }

void GpuWatch::Stop() {
  handlers_ = {};
  limit_.cancel();
  if (process_ == nullptr) return;
  process_->Forget();
  process_->Stop(kEndGrace);
  process_.reset();
}

void GpuWatch::Start() {
  ProcessSpec spec;
  spec.argv = options_.argv;
  spec.environment = options_.environment;
  Result<std::shared_ptr<CapturedProcess>> started = CapturedProcess::Start(
      reaper_, std::move(spec),
      {.on_output =
           [this](bool is_stderr, std::string_view data) {
             if (!is_stderr) Take(data);
           },
       .on_end = [this](ProcessEnd, const LastLines& last_lines) { OnEnd(last_lines); }});
  if (!started.ok()) return Report(started.error().message, false);
  process_ = *std::move(started);
  limit_.expires_after(options_.limit);
  limit_.async_wait([this](const boost::system::error_code& cancelled) {
    if (cancelled) return;
    Report("the driver did not list the GPUs within " +
               std::to_string(options_.limit.count() / 1000) + " s",
           /*hangs=*/true);
    process_->Forget();
    process_->Stop(kEndGrace);
  });
}

void GpuWatch::Take(std::string_view data) {
  for (const char one : data) {
    if (one != '\n') {
      if (unfinished_.size() < kLongestLine) unfinished_ += one;
      continue;
    }
    TakeLine(std::exchange(unfinished_, {}));
  }
}

void GpuWatch::TakeLine(const std::string& line) {
  std::string_view rest = line;
  const std::string word = NextField(rest);
  if (word == kDevice && !reported_) {
    const std::string uuid = NextField(rest);
    list_.devices.push_back({uuid, NextField(rest)});
  } else if (word == kAll) {
    Report("", false);
  } else if (word == kNone) {
    Report(NextField(rest), false);
  } else if (word == kTrouble && handlers_.on_trouble) {
    GpuTrouble trouble{.uuid = NextField(rest)};
    trouble.xid = std::atoi(NextField(rest).c_str());
    trouble.fault = NextField(rest);
    handlers_.on_trouble(trouble);
  }
}

void GpuWatch::OnEnd(const LastLines& last_lines) {
  process_.reset();
  const std::vector<std::string> lines = last_lines.Lines();
  const std::string last = lines.empty() ? "" : ": " + lines.back();
  if (!reported_) return Report("the process that lists the GPUs exited" + last, false);
  if (list_.problem.empty()) LogWarn("Stopped watching the GPUs", {{"last", last}});
}

void GpuWatch::Report(std::string problem, bool hangs) {
  if (std::exchange(reported_, true)) return;
  limit_.cancel();
  list_.problem = std::move(problem);
  list_.hangs = hangs;
  if (handlers_.on_list) handlers_.on_list(list_);
}

int PrintGpus(const std::string& library) {
  const Result<std::unique_ptr<Nvml>> nvml = Nvml::Open(library);
  const Result<std::vector<GpuDevice>> devices =
      nvml.ok() ? (*nvml)->Devices() : Result<std::vector<GpuDevice>>(nvml.error());
  if (!devices.ok()) {
    Print(kNone, {devices.error().message});
    return 0;
  }
  for (const GpuDevice& device : *devices) Print(kDevice, {device.uuid, device.fault});
  Print(kAll, {});
  for (;;) {
    for (const GpuTrouble& trouble : (*nvml)->Await(kEventWait)) {
      Print(kTrouble, {trouble.uuid, std::to_string(trouble.xid), trouble.fault});
    }
  }
}

}  // namespace ringmaster::agent
