#include "operator/runtime/access_check.h"

#include <map>
#include <utility>

#include <nlohmann/json.hpp>

#include "common/base/log.h"
#include "operator/kube/json_access.h"

namespace ringmaster::runtime {
namespace {

constexpr kube::Resource kAccessReviews{"authorization.k8s.io", "v1", "selfsubjectaccessreviews",
                                        "SelfSubjectAccessReview", false};

}  // namespace

std::string AccessRule::Target() const {
  std::string text = resource.FullName();
  if (!subresource.empty()) text += "/" + subresource;
  if (!name.empty()) text += " " + name;
  if (!resource.namespaced) return text;
  return text + (ns.empty() ? std::string(" in all namespaces") : " in namespace " + ns);
}

AccessCheck::AccessCheck(kube::KubeClient& client, std::vector<AccessRule> rules,
                         std::chrono::milliseconds interval)
    : client_(client), rules_(std::move(rules)), interval_(interval) {}

AccessCheck::~AccessCheck() {
  if (!thread_.joinable()) return;
  thread_.request_stop();
  thread_.join();
}

void AccessCheck::Start() {
  thread_ = std::jthread([this](std::stop_token stop) { Work(stop); });
}

void AccessCheck::Work(std::stop_token stop) {
  while (!stop.stop_requested() && !CheckOnce()) {
    std::unique_lock lock(mutex_);
    wake_.wait_for(lock, stop, interval_, [] { return false; });
  }
}

bool AccessCheck::CheckOnce() {
  std::map<std::string, std::string> missing;  // target -> verbs
  std::string problem;
  for (const AccessRule& rule : rules_) {
    const Result<bool> allowed = Allowed(rule);
    if (!allowed.ok()) {
      problem = "cannot find out our rights: " + allowed.error().message;
      break;
    }
    if (*allowed) continue;
    std::string& verbs = missing[rule.Target()];
    verbs += (verbs.empty() ? "" : ", ") + rule.verb;
  }
  if (problem.empty() && !missing.empty()) {
    for (const auto& [target, verbs] : missing) {
      problem += (problem.empty() ? "" : "; ") + verbs + " " + target;
    }
    problem = "the operator's service account lacks rights: " + problem +
              "; add them to its Role or ClusterRole";
  }
  complete_ = problem.empty();
  const std::lock_guard lock(mutex_);
  if (problem != problem_ && !problem.empty()) LogWarn("Lacked rights", {{"reason", problem}});
  if (problem.empty() && !problem_.empty()) LogInfo("Got all rights");
  problem_ = std::move(problem);
  return complete_;
}

std::string AccessCheck::Problem() const {
  const std::lock_guard lock(mutex_);
  return problem_;
}

Result<bool> AccessCheck::Allowed(const AccessRule& rule) {
  nlohmann::json attributes = {
      {"verb", rule.verb}, {"group", rule.resource.group}, {"resource", rule.resource.plural}};
  if (!rule.subresource.empty()) attributes["subresource"] = rule.subresource;
  if (!rule.ns.empty()) attributes["namespace"] = rule.ns;
  if (!rule.name.empty()) attributes["name"] = rule.name;
  const nlohmann::json review = {{"apiVersion", kAccessReviews.ApiVersion()},
                                 {"kind", kAccessReviews.kind},
                                 {"spec", {{"resourceAttributes", attributes}}}};
  const Result<nlohmann::json> answer = client_.Create(kAccessReviews, {}, review);
  if (!answer.ok()) return answer.error();
  return kube::GetBool(*answer, {"status", "allowed"});
}

}  // namespace ringmaster::runtime
