#pragma once

// Hosts on one machine, joined by links of a limited rate: network namespaces on a bridge, whose
// sending side is a token bucket (tc tbf). Needs root. Named after the process; what a killed bench
// left behind is removed by the next one.

#include <memory>
#include <string>
#include <vector>

#include "common/base/result.h"

namespace ringmaster::bench {

class LimitedLink {
 public:
  // `rate` as tc takes it: 1Gbit, 100Mbit. kInvalid: no rate, or not as root.
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
