#pragma once

// A process inside the limits of a launcher's container: one CPU and 512 MiB, by cgroups of either
// version; where these cannot be written, on one CPU by affinity and with its memory measured only.

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

  // Its output goes to `log`.
  LimitedProcess(const std::vector<std::string>& arguments,
                 const std::map<std::string, std::string>& environment, const std::string& log);
  ~LimitedProcess();

  // "cgroup v1", "cgroup v2", or what holds instead.
  const std::string& limits() const { return limits_; }
  bool Runs() const;
  // Since its start, user and system.
  std::chrono::duration<double> Cpu() const;
  // The most that was resident at once.
  int64_t PeakMemory() const;

 private:
  void MakeGroups();
  void JoinGroups(pid_t process) const;

  pid_t process_ = -1;
  std::vector<std::string> groups_;
  std::string limits_;
};

}  // namespace ringmaster::bench
