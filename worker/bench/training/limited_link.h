#pragma once

// Simulates hosts that are connected by links of limited rate: network namespaces on a bridge,
// whose sending sides have a token bucket (tc tbf). Requires root. The namespaces' names contain
// the process id, so that the next bench can remove those of a killed bench.

#include <memory>
#include <string>
#include <vector>

#include "common/base/result.h"

namespace ringmaster::bench {

class LimitedLink {
 public:
  // `rate`: in tc's syntax (1Gbit, 100Mbit). kInvalid: not a rate, or this process is not root.
  static Result<std::unique_ptr<LimitedLink>> Make(int hosts, const std::string& rate);
  ~LimitedLink();
  LimitedLink(const LimitedLink&) = delete;
  LimitedLink& operator=(const LimitedLink&) = delete;

  std::vector<std::string> namespaces() const;
  std::vector<std::string> addresses() const;

 private:
  explicit LimitedLink(int hosts);
  Result<void> SetUp(const std::string& rate) const;
  std::string Host(int host) const;
  std::string Port(int host) const;
  std::string Bridge() const;

  const int hosts_;
  const std::string prefix_;
};

}  // namespace ringmaster::bench
