#include "operator/runtime/token_access.h"

#include <algorithm>
#include <optional>
#include <utility>

#include <nlohmann/json.hpp>

#include "common/base/log.h"
#include "common/control/secrets.h"
#include "operator/kube/json_access.h"

namespace ringmaster::runtime {
namespace {

nlohmann::json ReviewOf(const kube::Resource& resource, nlohmann::json spec) {
  return {
      {"apiVersion", resource.ApiVersion()}, {"kind", resource.kind}, {"spec", std::move(spec)}};
}

}  // namespace

TokenAccess::TokenAccess(kube::KubeClient& client, const Clock& clock, TokenAccessOptions options)
    : client_(client), clock_(clock), options_(std::move(options)) {}

TokenAccess::~TokenAccess() { Stop(); }

void TokenAccess::Start() {
  thread_ = std::jthread([this](std::stop_token stop) { Work(stop); });
}

void TokenAccess::Stop() {
  if (thread_.joinable()) {
    thread_.request_stop();
    thread_.join();
  }
  std::deque<Waiting> left;
  {
    const MutexLock lock(mutex_);
    stopped_ = true;
    left.swap(waiting_);
  }
  for (const Waiting& waiting : left) {
    for (const Done& done : waiting.done) done(Access::kUnknown);
  }
}

void TokenAccess::Judge(const std::string& token, Done done) {
  const std::string hash = control::Sha256Hex(token);
  const Clock::Time now = clock_.Now();
  const auto known = [&]() -> std::optional<Access> {
    const MutexLock lock(mutex_);
    if (stopped_) return Access::kUnknown;
    if (const auto kept = kept_.find(hash); kept != kept_.end()) {
      const bool allowed = kept->second.access == Access::kAllowed;
      const auto fresh_for = allowed ? options_.allowed_for : options_.refused_for;
      if (now - kept->second.at < fresh_for) return kept->second.access;
    }
    const auto same = std::find_if(waiting_.begin(), waiting_.end(),
                                   [&](const Waiting& waiting) { return waiting.hash == hash; });
    if (same != waiting_.end()) {
      same->done.push_back(std::move(done));
      return std::nullopt;
    }
    // Tokens that were recently allowed are reviewed before all unknown ones.
    const bool friendly = AllowedSince(hash, now - options_.allowed_unasked);
    if (!friendly && (waiting_.size() >= options_.max_waiting || !TakeTurnOfStranger(now))) {
      return Access::kBusy;
    }
    Waiting waiting{.hash = hash, .token = token, .done = {}};
    waiting.done.push_back(std::move(done));
    waiting_.insert(friendly ? waiting_.begin() : waiting_.end(), std::move(waiting));
    changed_.NotifyAll();
    return std::nullopt;
  }();
  if (known) done(*known);
}

bool TokenAccess::AllowedSince(const std::string& hash, Clock::Time since) const {
  const auto kept = kept_.find(hash);
  return kept != kept_.end() && kept->second.access == Access::kAllowed && kept->second.at >= since;
}

bool TokenAccess::TakeTurnOfStranger(Clock::Time now) {
  while (!strangers_.empty() && now - strangers_.front() >= std::chrono::seconds(1)) {
    strangers_.pop_front();
  }
  if (strangers_.size() >= static_cast<std::size_t>(options_.strangers_per_second)) return false;
  strangers_.push_back(now);
  return true;
}

void TokenAccess::Work(std::stop_token stop) {
  while (!stop.stop_requested()) {
    if (JudgeOne()) continue;
    MutexLock lock(mutex_);
    changed_.Wait(mutex_, stop, [this]() RINGMASTER_REQUIRES(mutex_) { return !waiting_.empty(); });
  }
}

bool TokenAccess::JudgeOne() {
  std::string token;
  std::string hash;
  {
    const MutexLock lock(mutex_);
    if (waiting_.empty()) return false;
    token = waiting_.front().token;
    hash = waiting_.front().hash;
  }
  const Access reviewed = Review(token);
  std::vector<Done> waited;
  Access access = reviewed;
  {
    const MutexLock lock(mutex_);
    access = Keep(hash, reviewed);
    // The queue may have changed during the review: other tokens may now precede this one.
    const auto judged = std::find_if(waiting_.begin(), waiting_.end(),
                                     [&](const Waiting& waiting) { return waiting.hash == hash; });
    waited = std::move(judged->done);
    waiting_.erase(judged);
  }
  for (const Done& done : waited) done(access);
  return true;
}

Access TokenAccess::Review(const std::string& token) {
  const auto reviewed =
      client_.Create(kTokenReviews, {}, ReviewOf(kTokenReviews, {{"token", token}}));
  if (!reviewed.ok()) {
    LogDebug("Failed to review a token", {{"error", reviewed.error().message}});
    return Access::kUnknown;
  }
  if (!kube::GetBool(*reviewed, {"status", "authenticated"})) return Access::kUnauthenticated;
  const nlohmann::json user = reviewed->at("status").value("user", nlohmann::json::object());
  nlohmann::json spec = {{"nonResourceAttributes", {{"path", options_.path}, {"verb", "get"}}},
                         {"user", kube::GetString(user, {"username"})},
                         {"uid", kube::GetString(user, {"uid"})}};
  for (const char* field : {"groups", "extra"}) {
    if (user.contains(field)) spec[field] = user.at(field);
  }
  const auto allowed =
      client_.Create(kSubjectAccessReviews, {}, ReviewOf(kSubjectAccessReviews, std::move(spec)));
  if (!allowed.ok()) {
    LogDebug("Failed to review an access", {{"error", allowed.error().message}});
    return Access::kUnknown;
  }
  return kube::GetBool(*allowed, {"status", "allowed"}) ? Access::kAllowed : Access::kForbidden;
}

// Stores the result and returns it, or an earlier result if the API server did not answer.
Access TokenAccess::Keep(const std::string& hash, Access access) {
  const Clock::Time now = clock_.Now();
  if (access == Access::kUnknown) {
    const bool allowed = AllowedSince(hash, now - options_.allowed_unasked);
    return allowed ? Access::kAllowed : Access::kUnknown;
  }
  kept_[hash] = {access, now};
  if (kept_.size() > options_.max_kept) {
    // First remove results of tokens that are not allowed, and older results before newer ones.
    kept_.erase(std::min_element(kept_.begin(), kept_.end(), [](const auto& a, const auto& b) {
      const auto rank = [](const Kept& kept) {
        return std::pair(kept.access == Access::kAllowed, kept.at);
      };
      return rank(a.second) < rank(b.second);
    }));
  }
  return access;
}

}  // namespace ringmaster::runtime
