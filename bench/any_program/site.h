#pragma once

// Runs the program on hosts made of network namespaces, one for each worker and a spare one, and
// keeps it running under Ringmaster or under torchrun's own agents. A site also simulates the
// cluster: it restarts containers that ended, and moves the worker of a silent host to the spare
// host.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bench/any_program/faults.h"
#include "tests/runtime/hosts.h"

namespace ringmaster::any_program {

struct SiteOptions {
  int workers = 3;
  int ranks = 2;                      // ranks per worker
  std::vector<std::string> script{};  // the script's path and arguments
  std::string folder;                 // output folder, which all hosts share
  runtime_test::Variables variables;  // environment variables of every process
};

class Site {
 public:
  virtual ~Site() = default;

  // Restarts the whole job, after ending the parts that are still running.
  virtual void Start() = 0;
  virtual bool Knows(FaultKind kind) const = 0;
  // Injects the fault and simulates the cluster's reaction. After kCut, a site that detects silent
  // hosts returns the seconds until the detection; less than 0: not detected.
  virtual std::optional<double> Strike(const Fault& fault) = 0;
  // Simulates the cluster's reaction to processes that ended. Returns why the run is over, or "".
  virtual std::string Tend() = 0;
  // Reconnects a host that was cut off. Returns false if the processes on it do not end.
  virtual bool Heal() = 0;
  virtual std::string Log() const = 0;
};

// Runs a job in mode Restart with launchMode PerWorker, in containers that have only Python.
std::unique_ptr<Site> UnderRingmaster(const SiteOptions& options);
// Runs one torchrun per host, all with the same list of hosts. A host that is cut off is replaced
// after the time that Ringmaster needs to detect a cut.
std::unique_ptr<Site> UnderTorchrun(const SiteOptions& options);

// The processes of one container: torchrun and its ranks.
struct Programs {
  std::vector<pid_t> torchrun;
  std::vector<pid_t> ranks;
};
Programs Find(const runtime_test::Process& container);

}  // namespace ringmaster::any_program
