#include "worker/agent/preflight/preflight.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <utility>

#include <boost/asio/post.hpp>

#include "common/base/cut_text.h"
#include "common/control/agent_launcher_messages.h"

namespace ringmaster::agent {
namespace {

// How long the other checks may take once one has failed.
constexpr std::chrono::milliseconds kAfterFailure{1000};

// Returns whether this worker cannot be ready, whatever starts the ranks.
bool Fails(const Finding& finding) {
  return finding.fatal && !control::DependsOnTheStarter(finding.check);
}

std::optional<Finding> RunCheck(const std::string& name, Check check, const Config& config) {
  try {
    return check(config);
  } catch (const std::exception& error) {
    return Finding{name, std::string("the check itself failed: ") + error.what()};
  }
}

}  // namespace

Preflight::Preflight(boost::asio::io_context& io, const Config& config,
                     std::map<std::string, Check> checks, std::chrono::milliseconds limit,
                     Done done)
    : io_(io), done_(std::move(done)), limit_(io, limit), pending_(std::move(checks)) {
  AwaitLimit();
  for (const auto& [name, check] : pending_) {
    threads_.emplace_back([this, name = name, check = check, &config] {
      std::optional<Finding> finding = RunCheck(name, check, config);
      boost::asio::post(io_, [this, name, finding = std::move(finding)]() mutable {
        Collect(name, std::move(finding));
      });
    });
  }
}

void Preflight::AwaitLimit() {
  limit_.async_wait([this](const boost::system::error_code& cancelled) {
    if (!cancelled) Report();
  });
}

void Preflight::Collect(const std::string& name, std::optional<Finding> finding) {
  if (pending_.erase(name) == 0 || !done_) return;
  if (finding.has_value()) findings_.push_back(*std::move(finding));
  if (pending_.empty()) return Report();
  if (std::ranges::none_of(findings_, Fails)) return;
  limit_.expires_at(std::min(limit_.expiry(), std::chrono::steady_clock::now() + kAfterFailure));
  AwaitLimit();
}

void Preflight::Report() {
  if (!done_) return;
  limit_.cancel();
  if (!pending_.empty()) {
    std::vector<std::string> names;
    for (const auto& [name, check] : pending_) names.push_back(name);
    // A second is too short to blame a volume.
    const bool failed = std::ranges::any_of(findings_, Fails);
    findings_.push_back({.check = "volume",
                         .message = failed
                                        ? "other checks were not awaited (" + ListText(names) + ")"
                                        : "checks timed out (" + ListText(names) +
                                              "); check whether a volume of this Pod hangs",
                         .timed_out = true});
  }
  std::exchange(done_, nullptr)(std::move(findings_));
}

}  // namespace ringmaster::agent
