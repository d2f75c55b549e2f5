#pragma once

// Runs a process with the limits of a launcher's container: one CPU and 512 MiB, by cgroups v1 or
// v2. Without write access to cgroups, limits the CPU by affinity and does not limit the memory.

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <sys/types.h>
#include <vector>

namespace ringmaster::bench {

class LimitedProcess {
 public:
  static constexpr int64_t kMemory = int64_t{512} << 20;

  // Writes the process's output to the file `log`.
  LimitedProcess(const std::vector<std::string>& arguments,
                 const std::map<std::string, std::string>& environment, const std::string& log);
  ~LimitedProcess();

  // Returns "cgroup v1", "cgroup v2", or a description of the limits that are used instead.
  const std::string& limits() const { return limits_; }
  bool Runs() const;
  // Returns the process's user and system time since its start.
  std::chrono::duration<double> Cpu() const;
  // Returns the peak resident memory, in bytes.
  int64_t PeakMemory() const;

 private:
  void MakeGroups();
  void JoinGroups(pid_t process) const;

  pid_t process_ = -1;
  std::vector<std::string> groups_;
  std::string limits_;
};

}  // namespace ringmaster::bench
