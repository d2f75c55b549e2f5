#pragma once

// Child processes of a test: started with a log file, waited for with a deadline, killed with the
// test. Used by hosts.h and the tests; not a product library.

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

// Runs a program to its end, with its output in the result. Fails the test when it takes longer
// than a minute.
struct Ran {
  int exit_code = -1;
  std::string output;  // both streams
};
Ran RunCommand(const std::vector<std::string>& argv);

// One process that goes on while the test does. Killed by the destructor, and by the kernel should
// the test die.
class Process {
 public:
  Process(const std::vector<std::string>& argv, std::string log_file);
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  pid_t pid() const { return pid_; }
  // How it ended, or nothing when it still runs at the end of the limit, times Patience().
  std::optional<Outcome> Wait(std::chrono::milliseconds limit);
  void Kill();
  std::string Log() const;

 private:
  pid_t pid_ = -1;
  std::string log_file_;
  std::optional<Outcome> outcome_;
};

// Whether `condition` became true within the limit, times Patience(); asked every 20 ms at first,
// and every 100 ms in the end.
bool WaitUntil(std::chrono::milliseconds limit, const std::function<bool()>& condition);

std::string ReadFile(const std::string& path);
void WriteFile(const std::string& path, const std::string& content);

}  // namespace ringmaster::runtime_test
