#pragma once

// A few "hosts" on one machine: network namespaces joined by a bridge, each with an address, a host
// name, and a /tmp, /dev/shm and /run of its own for what runs there. Every process started on a
// host is PID 1 of its own PID namespace, so that nothing survives it. Needs root. Names carry the
// test's pid. However the test ends, interrupted or killed, a process that outlives it removes the
// hosts; should that be killed too, the next test does.

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
  // True where this machine lets us make namespaces.
  static bool Possible();

  explicit Hosts(int count);
  ~Hosts();

  // Whether control groups can be made that limit memory: those of version 1, by root.
  static bool CanLimitMemory();

  // What starts on this host from here on is in a control group of its own with this limit, and
  // sees it as a container does. REQUIRES: CanLimitMemory().
  void LimitMemory(int host, int64_t bytes);

  // What starts on this host from here on has so many CPUs, in periods of 10 ms, by a control group
  // of either version. REQUIRES: root.
  void LimitCpu(int host, double cpus);

  // What starts on any host from here on does not find this program. REQUIRES: this machine has it.
  void Hide(const std::string& program) { hidden_.push_back(program); }

  std::string Address(int host) const;
  std::string Namespace(int host) const;

  // The program's standard streams go to `log_file`. Its environment is `variables` alone.
  // It begins in `working_dir`; empty: in the one that we are in.
  std::unique_ptr<Process> Start(int host, const std::string& host_name, const Variables& variables,
                                 const std::vector<std::string>& argv, const std::string& log_file,
                                 const std::string& working_dir = "") const;

  // Signals the PID 1 that a Start() made, not what holds its namespace.
  static void Signal(const Process& process, int signal);

  // The processes below a Start() whose program has this name, in the order of their starts.
  static std::vector<pid_t> Find(const Process& process, const std::string& program);

  // Cuts the host off, or mends it: packets vanish both ways, and nobody is told of it.
  void SetCut(int host, bool cut) const;
  // Packets towards the host vanish, its own still leave. Mended by SetCut(host, false).
  void CutInward(int host) const;

 private:
  std::string Link(int host) const;
  void SetRules(int host, const std::string& rules) const;

  void StartRemover();

  const int count_;
  const std::string prefix_;
  int remover_pipe_ = -1;
  pid_t remover_ = -1;
  std::map<int, std::string> memory_groups_;  // their folders, by host
  std::map<int, std::string> cpu_groups_;
  std::vector<std::string> hidden_;
};

}  // namespace ringmaster::runtime_test
