#pragma once

// Runs a program and reports its two output streams as they arrive, and its exit after all output.
// The launcher uses it for mpirun; the agent for ranks, sshd and version queries; attach for
// programs that it runs directly. Single-threaded, on the io_context of its reaper.

#include <array>
#include <chrono>
#include <functional>
#include <memory>
#include <string_view>
#include <sys/types.h>

#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>

#include "common/base/result.h"
#include "common/process/child_reaper.h"
#include "common/process/last_lines.h"
#include "common/process/process.h"

namespace ringmaster {

class CapturedProcess : public std::enable_shared_from_this<CapturedProcess> {
 public:
  struct Handlers {
    // Called with new output. NUL bytes are removed.
    std::function<void(bool is_stderr, std::string_view data)> on_output;
    // Called once, after all output.
    std::function<void(ProcessEnd end, const LastLines& last_lines)> on_end;
  };

  // Starts `spec` and captures its output. Handlers run later, never from inside this call.
  // `reaper` must outlive the process.
  static Result<std::shared_ptr<CapturedProcess>> Start(ChildReaper& reaper, ProcessSpec spec,
                                                        Handlers handlers);

  pid_t pid() const { return pid_; }
  // The last lines of the output that has been read so far.
  const LastLines& last_lines() const { return last_lines_; }

  // Sends SIGTERM to the process group, and SIGKILL after `grace`.
  void Stop(std::chrono::milliseconds grace);
  void Signal(int signal);

  // Stops or resumes reading the output. While it is paused, the process blocks once its pipe is
  // full. Ignored after the process has ended.
  void PauseOutput(bool paused);

  // No handler runs after this call; the process continues.
  void Forget() { handlers_ = {}; }

  CapturedProcess(ChildReaper& reaper, const StartedProcess& started, bool leaves_daemons,
                  Handlers handlers);

 private:
  struct Stream {
    explicit Stream(boost::asio::io_context& io) : descriptor(io) {}
    boost::asio::posix::stream_descriptor descriptor;
    std::array<char, 16384> buffer{};
    bool reading = false;
    bool ended = false;
  };

  void Read(bool is_stderr);
  void Take(bool is_stderr, std::string_view data);
  void OnEnd(ProcessEnd end);
  void ReportWhenDrained();

  ChildReaper& reaper_;
  const pid_t pid_;
  const bool leaves_daemons_;
  Handlers handlers_;
  Stream stdout_;
  Stream stderr_;
  boost::asio::steady_timer drain_limit_;
  bool paused_ = false;
  bool ended_ = false;
  ProcessEnd end_;
  LastLines last_lines_;
};

// Writes to our own standard output or standard error. Ignores write errors, so that the program
// whose output is passed on keeps running.
void PassThrough(bool is_stderr, std::string_view data);

}  // namespace ringmaster
