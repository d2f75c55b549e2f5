#pragma once

// Child processes of a test: started with their output in a file, waited for by pidfd, killed with
// the object. A child also dies with the thread that started it (PR_SET_PDEATHSIG), so start
// long-lived ones from the main thread: an aborted test leaves nothing running.

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/result.h"

namespace ringmaster::testing {

struct ProcessOptions {
  std::vector<std::string> argv;           // argv[0] is a path, or found in PATH
  std::map<std::string, std::string> env;  // added to this process' own
  std::filesystem::path log;               // both streams, appended
  std::string stdin_text;
};

class Process {
 public:
  static Result<std::unique_ptr<Process>> Start(const ProcessOptions& options);
  ~Process();  // SIGKILL and wait, where it still runs
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  int pid() const { return pid_; }
  bool Running() { return !Wait(std::chrono::milliseconds(0)).has_value(); }
  // Thread-safe: the pidfd cannot name another process, even after this one was waited for.
  void Signal(int signal) const;
  // The exit status as a shell shows it (128 + signal), or nothing while it runs at the end of the
  // limit, times Patience().
  std::optional<int> Wait(std::chrono::milliseconds limit);
  std::string Log() const;

 private:
  Process(int pid, int pidfd, std::filesystem::path log);

  const int pid_;
  const int pidfd_;
  const std::filesystem::path log_;
  std::optional<int> status_;
};

struct CommandOutput {
  int status = -1;
  std::string text;  // both streams
};

// Runs a command to its end; a limit, times Patience(), that has passed counts as status 124.
CommandOutput RunCommand(const std::vector<std::string>& argv, const std::string& stdin_text = "",
                         std::chrono::milliseconds limit = std::chrono::seconds(60));

// Where files stay in memory: nothing there waits for a disk that others keep busy. The temporary
// folder where there is no such room (1 GiB).
std::filesystem::path MemoryFolder();

// A directory that goes with the object.
class TemporaryDirectory {
 public:
  explicit TemporaryDirectory(
      const std::filesystem::path& parent = std::filesystem::temp_directory_path());
  ~TemporaryDirectory();
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

std::string ReadFile(const std::filesystem::path& path);
// The number of a line of /proc/<pid>/status ("VmRSS", in KiB); -1 where there is none.
int64_t StatusField(int pid, const std::string& field);
void WriteFile(const std::filesystem::path& path, const std::string& text);

// A TCP port of `address` that is free at this moment, and none that the kernel gives to somebody's
// connection before it is listened on.
int FreePort(const std::string& address = "127.0.0.1");

}  // namespace ringmaster::testing
