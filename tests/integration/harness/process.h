#pragma once

// Child processes of a test. Their output goes to a file, and the destructor kills them. A child
// also dies with the thread that started it (PR_SET_PDEATHSIG). Start long-lived children from the
// main thread: then an aborted test leaves nothing running.

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
  std::vector<std::string> argv;           // argv[0] is a path, or is looked up in PATH
  std::map<std::string, std::string> env;  // added to the environment of this process
  std::filesystem::path log;               // standard output and error, appended
  std::string stdin_text;
};

class Process {
 public:
  static Result<std::unique_ptr<Process>> Start(const ProcessOptions& options);
  ~Process();  // kills the process with SIGKILL and waits, if it still runs
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  int pid() const { return pid_; }
  bool Running() { return !Wait(std::chrono::milliseconds(0)).has_value(); }
  // Thread-safe: the pidfd never refers to another process, even after Wait() has returned.
  void Signal(int signal) const;
  // Returns the exit status as a shell shows it (128 + signal), or nullopt if the process still
  // runs after `limit` times Patience().
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
  std::string text;  // standard output and error
};

// Runs a command and waits for it. The status is 124 if it runs longer than `limit` * Patience().
CommandOutput RunCommand(const std::vector<std::string>& argv, const std::string& stdin_text = "",
                         std::chrono::milliseconds limit = std::chrono::seconds(60));

// Returns a folder in memory, so that files do not wait for a busy disk. If less than 1 GiB of
// memory is free for the folder, returns the temporary folder.
std::filesystem::path MemoryFolder();

// A directory that the destructor removes.
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
// Returns a number of /proc/<pid>/status, such as "VmRSS" in KiB; -1 if there is none.
int64_t StatusField(int pid, const std::string& field);
void WriteFile(const std::filesystem::path& path, const std::string& text);

// Returns a TCP port of `address` that is free now. The kernel does not assign it to outgoing
// connections before the caller listens on it.
int FreePort(const std::string& address = "127.0.0.1");

}  // namespace ringmaster::testing
