#pragma once

// Runs the program on hosts made of network namespaces, one for each worker and a spare one, and
// keeps it running under Ringmaster or under torchrun's own agents. A site also does the cluster's
// part: it restarts containers that ended, and moves the worker of a silent host to the spare
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
  int ranks = 2;                      // per worker
  std::vector<std::string> script{};  // path and arguments
  std::string folder;                 // for output; all hosts share it
  runtime_test::Variables variables;  // of every process
};

class Site {
 public:
  virtual ~Site() = default;

  // Starts from scratch, even if parts of it are running.
  virtual void Start() = 0;
  virtual bool Knows(FaultKind kind) const = 0;
  // Injects the fault and plays the cluster's reaction. If a host was cut off and the site detects
  // silence, returns the seconds until it did; less than 0: never.
  virtual std::optional<double> Strike(const Fault& fault) = 0;
  // Plays the cluster's reaction to processes that ended. Returns why the run is over, or "".
  virtual std::string Tend() = 0;
  // Reconnects a host that was cut off. Returns false if its old processes do not end.
  virtual bool Heal() = 0;
  virtual std::string Log() const = 0;
};

// A job in mode Restart with launchMode PerWorker, whose containers have only Python.
std::unique_ptr<Site> UnderRingmaster(const SiteOptions& options);
// One torchrun per host, all with the same list of hosts. They are told of a host that is cut off
// after the time that Ringmaster needs to detect one.
std::unique_ptr<Site> UnderTorchrun(const SiteOptions& options);

// The processes of one container: torchrun itself, and its ranks.
struct Programs {
  std::vector<pid_t> torchrun;
  std::vector<pid_t> ranks;
};
Programs Find(const runtime_test::Process& container);

}  // namespace ringmaster::any_program
