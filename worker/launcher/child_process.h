#pragma once

// One child program (mpirun, `mpirun --version`) in its own process group, its output read line by
// line on the io_context thread. The launcher is its container's first process: ChildProcesses also
// reaps whatever orphans end up with it. Everything here belongs to the one thread that runs the
// io_context.

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"

namespace boost::asio {
class io_context;
}

namespace ringmaster::launcher {

struct ChildExit {
  int exit_code = -1;  // 0 … 255, or -1 with a signal
  int signal = 0;
};

struct ChildSpec {
  std::string file;                    // absolute path
  std::vector<std::string> arguments;  // argv, argv[0] included
  std::map<std::string, std::string> environment;
  // Raw output as it comes.
  std::function<void(bool is_stderr, std::string_view data)> on_output;
  // Once, after both streams ended (or 500 ms after the exit: a daemon may keep them open).
  std::function<void(ChildExit)> on_exit;
};

// A running child. Destroying it kills its process group and reports nothing.
class ChildProcess {
 public:
  virtual ~ChildProcess() = default;
  virtual int pid() const = 0;
  // SIGTERM to its process group now, SIGKILL after the grace period if it still runs.
  virtual void Stop(std::chrono::milliseconds grace) = 0;
};

class ChildProcesses {
 public:
  explicit ChildProcesses(boost::asio::io_context& io);
  ~ChildProcesses();

  // The error says why the program cannot be executed.
  Result<std::unique_ptr<ChildProcess>> Start(ChildSpec spec);

 private:
  class Impl;
  std::shared_ptr<Impl> impl_;
};

// The absolute path of a program, looked up in `path` (a PATH value); empty when there is none.
std::string FindProgram(const std::string& name, const std::string& path);

}  // namespace ringmaster::launcher
