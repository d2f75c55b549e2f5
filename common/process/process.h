#pragma once

// Starts a program with fork and exec, from an argument vector (never through a shell) and in a new
// process group. The program is terminated together with this process. Used by captured_process.h;
// child_reaper.h waits for the exit.

#include <csignal>
#include <functional>
#include <optional>
#include <string>
#include <sys/types.h>
#include <vector>

#include "common/base/result.h"

namespace ringmaster {

struct ProcessSpec {
  std::vector<std::string> argv;  // argv[0] without a slash is looked up in PATH of `environment`
  std::vector<std::string> environment;  // "NAME=VALUE"
  bool capture_output = false;           // false: it uses our standard output and error
  bool keep_stdin = false;               // false: standard input is /dev/null
  bool keep_descriptors = false;         // false: it inherits only the standard streams
  int death_signal = SIGKILL;            // the signal that it receives when this process dies
  // True: processes that remain in its process group outlive it, such as a daemon that is about to
  // detach itself.
  bool leaves_daemons = false;
  std::optional<mode_t> mask{};  // umask; unset: ours
  // Called with the process and group id before the program runs, which waits for the return.
  std::function<void(pid_t pid)> on_fork{};
};

struct StartedProcess {
  pid_t pid = -1;  // also the id of its process group
  int stdout_fd =
      -1;  // read ends of the pipes, non-blocking, if output is captured; the caller closes them
  int stderr_fd = -1;
};

// Returns kNotFound or kForbidden, with a full sentence as the message, if the program cannot be
// executed; kUnavailable if the machine lacks resources. After an error no process remains.
// REQUIRES: the calling thread outlives the program; when that thread ends, the program is killed.
Result<StartedProcess> StartProcess(const ProcessSpec& spec);

// Replaces this process by a new run of its program, with the same pid, environment and standard
// streams, and with the signals blocked that the calling thread blocks. All threads end at once.
// Can be called from any thread. If that is impossible, ends the process with the exit code 1.
[[noreturn]] void StartAgain(char* const* argv);

// Returns the file of `program`: `program` itself if it contains a slash, otherwise the first
// executable with that name in `path` (colon-separated). Empty if there is none.
std::string FindProgram(const std::string& program, const std::string& path);

}  // namespace ringmaster
