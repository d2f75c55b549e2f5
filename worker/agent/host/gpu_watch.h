#pragma once

// Lists this worker's GPUs once and then watches them for errors. A child process calls NVML
// (nvml.h), so that a driver that hangs or crashes does not affect the agent. Used by the agent in
// Pods with GPUs. Single-threaded.

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>

#include "common/process/captured_process.h"
#include "common/process/child_reaper.h"
#include "worker/agent/host/gpu_list.h"

namespace ringmaster::agent {

// Makes the agent's program run as the child process. NVML's library name follows the flag.
inline constexpr char kWatchGpusFlag[] = "--watch-gpus";

class GpuWatch {
 public:
  struct Options {
    std::vector<std::string> argv;         // a command that runs PrintGpus()
    std::vector<std::string> environment;  // "NAME=VALUE"
    // Time limit for the list. Starting a GPU takes seconds if persistence mode is off.
    std::chrono::milliseconds limit{60'000};
  };
  struct Handlers {
    std::function<void(const GpuList&)> on_list;  // called once
    std::function<void(const GpuTrouble&)> on_trouble;
  };

  // `io` and `reaper` must outlive this object. No handler runs inside a call of this class.
  GpuWatch(boost::asio::io_context& io, ChildReaper& reaper, Options options, Handlers handlers);
  ~GpuWatch();
  GpuWatch(const GpuWatch&) = delete;
  GpuWatch& operator=(const GpuWatch&) = delete;

  // No handler runs afterwards.
  void Stop();

 private:
  void Start();
  void Take(std::string_view data);
  void TakeLine(const std::string& line);
  void OnEnd(const LastLines& last_lines);
  void Report(std::string problem, bool hangs);

  ChildReaper& reaper_;
  const Options options_;
  Handlers handlers_;
  boost::asio::steady_timer limit_;
  std::shared_ptr<CapturedProcess> process_;
  std::string unfinished_;  // a line
  GpuList list_;
  bool reported_ = false;
};

// Runs in the child process: prints the GPUs once, and then their errors until the process is
// stopped. Returns the exit code.
int PrintGpus(const std::string& library);

}  // namespace ringmaster::agent
