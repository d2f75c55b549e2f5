#pragma once

// Simulates a few hosts on one machine: network namespaces joined by a bridge. Each host has an
// address, a name, and a private /tmp, /dev/shm and /run. A process started on a host is PID 1 of a
// new PID namespace, so that its descendants end with it. Needs root. Names contain the test's pid.
// A helper process removes the hosts after the test, even if the test is killed. If the helper is
// killed too, the next test removes them.

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/runtime/processes.h"

namespace ringmaster::runtime_test {

using Variables = std::map<std::string, std::string>;

class Hosts {
 public:
  // Returns whether this process may create namespaces.
  static bool Possible();

  explicit Hosts(int count);
  ~Hosts();

  // Returns whether control groups can limit memory here, which needs root and cgroup v1.
  static bool CanLimitMemory();

  // Puts each process started later on this host in a separate control group with this limit. The
  // process sees the group as a container does. REQUIRES: CanLimitMemory().
  void LimitMemory(int host, int64_t bytes);

  // Limits each process started later on this host to this many CPUs, in periods of 10 ms, through
  // a control group (v1 or v2). REQUIRES: root.
  void LimitCpu(int host, double cpus);

  // Hides this program from processes started later on any host. REQUIRES: the program exists.
  void Hide(const std::string& program) { hidden_.push_back(program); }

  std::string Address(int host) const;
  std::string Namespace(int host) const;

  // Starts a program. Its output goes to `log_file`, and its environment is only `variables`. The
  // program starts in `working_dir`; empty: in the test's working directory.
  std::unique_ptr<Process> Start(int host, const std::string& host_name, const Variables& variables,
                                 const std::vector<std::string>& argv, const std::string& log_file,
                                 const std::string& working_dir = "") const;

  // Signals PID 1 of the namespace that Start() created, not the process that Start() returned.
  static void Signal(const Process& process, int signal);

  // Returns the descendants of `process` that run this program, in the order of their starts.
  static std::vector<pid_t> Find(const Process& process, const std::string& program);

  // Shuts down all TCP connections of the process, which continues. Returns their number.
  static int BreakConnections(pid_t pid);

  // Disconnects or reconnects a host: packets are dropped both ways, without an error.
  void SetCut(int host, bool cut) const;
  // Drops packets to the host; packets from the host still leave. SetCut(host, false) undoes this.
  void CutInward(int host) const;

 private:
  std::string Link(int host) const;
  void SetRules(int host, const std::string& rules) const;

  void StartRemover();

  const int count_;
  const std::string prefix_;
  int remover_pipe_ = -1;
  pid_t remover_ = -1;
  std::map<int, std::string> memory_groups_;  // cgroup folders, by host
  std::map<int, std::string> cpu_groups_;
  std::vector<std::string> hidden_;
};

}  // namespace ringmaster::runtime_test
