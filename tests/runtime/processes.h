#pragma once

// Child processes of a test. They write to a log file, tests wait for them with a deadline, and
// they are killed with the test. Used by hosts.h and the tests; not a product library.

#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <sys/types.h>
#include <vector>

namespace ringmaster::runtime_test {

using Seconds = std::chrono::seconds;

struct Outcome {
  int exit_code = -1;
  int signal = 0;
};

// Runs a program, waits until it ends, and returns its output. Fails the test after one
// minute.
struct Ran {
  int exit_code = -1;
  std::string output;  // standard output and error
};
Ran RunCommand(const std::vector<std::string>& argv);

// A child process of the test. The destructor kills it, and so does the kernel if the test process
// dies.
class Process {
 public:
  Process(const std::vector<std::string>& argv, std::string log_file);
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  pid_t pid() const { return pid_; }
  // Returns how the child ended, or nullopt if it still runs after `limit` times Patience().
  std::optional<Outcome> Wait(std::chrono::milliseconds limit);
  void Kill();
  std::string Log() const;

 private:
  pid_t pid_ = -1;
  std::string log_file_;
  std::optional<Outcome> outcome_;
};

// Sends the signal, and returns whether that succeeded. Unlike kill(), refuses -1, the pid of a
// process that was not found: kill() would send the signal to all processes of the machine.
bool SendSignal(pid_t pid, int signal);

// Returns whether `condition` became true within `limit` times Patience(). Checks every 20 ms at
// first, and every 100 ms later.
bool WaitUntil(std::chrono::milliseconds limit, const std::function<bool()>& condition);

std::string ReadFile(const std::string& path);
void WriteFile(const std::string& path, const std::string& content);

}  // namespace ringmaster::runtime_test
