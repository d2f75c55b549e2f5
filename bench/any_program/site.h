#pragma once

// Where the program runs and who keeps it running: Ringmaster, or torchrun's own agents. Both on
// hosts made of network namespaces, one for each worker and a spare one. A site also does what a
// cluster does by itself: a container that ended is started again, and the worker of a host that
// is known to be silent gets the spare one.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bench/any_program/faults.h"
#include "tests/runtime/hosts.h"

namespace ringmaster::any_program {

struct SiteOptions {
  int workers = 3;
  int ranks = 2;                      // of each worker
  std::vector<std::string> script{};  // and its arguments
  std::string folder;                 // for what is printed; all hosts see it
  runtime_test::Variables variables;  // of every process
};

class Site {
 public:
  virtual ~Site() = default;

  // From nothing, also where something of it runs.
  virtual void Start() = 0;
  virtual bool Knows(FaultKind kind) const = 0;
  // Strikes, and gives the cluster's answer. After how many seconds the silence of a host was
  // noticed, where that is the fault and anybody notices; less than 0: never.
  virtual std::optional<double> Strike(const Fault& fault) = 0;
  // The cluster's answer to what ended since. Not empty: all is over, and why.
  virtual std::string Tend() = 0;
  // A host that was cut off is back; false: what ran there does not end.
  virtual bool Heal() = 0;
  virtual std::string Log() const = 0;
};

// A job in mode Restart with launchMode PerWorker, whose containers have nothing but Python.
std::unique_ptr<Site> UnderRingmaster(const SiteOptions& options);
// One torchrun a host, all with the same list of hosts. For a host that is cut off they are told
// after as long as Ringmaster takes to notice one.
std::unique_ptr<Site> UnderTorchrun(const SiteOptions& options);

// For the processes of a container: torchrun itself, and the ranks below it.
struct Programs {
  std::vector<pid_t> torchrun;
  std::vector<pid_t> ranks;
};
Programs Find(const runtime_test::Process& container);

}  // namespace ringmaster::any_program
