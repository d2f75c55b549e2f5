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

std::string Sentence(const std::map<std::string, std::string>& missing) {
  std::string rights;
  for (const auto& [target, verbs] : missing) {
    rights += (rights.empty() ? "" : "; ") + verbs + " " + target;
  }
  if (rights.empty()) return rights;
  return "the operator's service account lacks permissions: " + rights +
         "; add them to its Role or ClusterRole";
}

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
    MutexLock lock(mutex_);
    wake_.WaitFor(mutex_, stop, interval_, [] { return false; });
  }
}

bool AccessCheck::CheckOnce() {
  std::map<std::string, std::string> missing;  // target -> verbs
  std::map<std::string, std::string> without;  // target -> verbs, for optional permissions
  std::string problem;
  for (const AccessRule& rule : rules_) {
    const Result<bool> allowed = Allowed(rule);
    if (!allowed.ok()) {
      problem = "failed to review the operator's permissions: " + allowed.error().message;
      break;
    }
    if (*allowed) continue;
    const bool optional = !rule.without.empty();
    const std::string target = rule.Target() + (optional ? " (without: " + rule.without + ")" : "");
    std::string& verbs = (optional ? without : missing)[target];
    verbs += (verbs.empty() ? "" : ", ") + rule.verb;
  }
  if (problem.empty()) problem = Sentence(missing);
  std::string note = Sentence(without);
  complete_ = problem.empty();
  const MutexLock lock(mutex_);
  if (note != note_ && !note.empty())
    LogWarn("Continuing without optional permissions", {{"reason", note}});
  note_ = std::move(note);
  if (problem != problem_ && !problem.empty())
    LogWarn("Found missing permissions", {{"reason", problem}});
  if (problem.empty() && !problem_.empty()) LogInfo("Found all permissions");
  problem_ = std::move(problem);
  return complete_;
}

std::string AccessCheck::Note() const {
  const MutexLock lock(mutex_);
  return note_;
}

std::string AccessCheck::Problem() const {
  const MutexLock lock(mutex_);
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
