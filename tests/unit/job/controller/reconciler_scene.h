#pragma once

// An operator with one job, team-a/digits, and an in-memory API server, for the tests of the
// reconciler. A test changes objects in the API server, lets the operator settle and checks the
// objects.
//
//   FakeApi api;
//   Operator op(api);
//   op.Settle();
//   EXPECT_EQ(api.Count(kPodsPath), 4U);

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "common/json/json.h"
#include "operator/api/codec.h"
#include "operator/api/conditions.h"
#include "operator/job/controller/reconciler.h"
#include "operator/kube/json_access.h"
#include "tests/fakes/fake_clock.h"
#include "tests/fakes/fake_http_client.h"

namespace ringmaster::job {

using nlohmann::json;

inline constexpr char kJobPath[] =
    "/apis/ringmaster.dev/v1alpha1/namespaces/team-a/trainingjobs/digits";
inline constexpr char kPodsPath[] = "/api/v1/namespaces/team-a/pods";
inline constexpr char kPoliciesPath[] =
    "/apis/networking.k8s.io/v1/namespaces/team-a/networkpolicies";
inline constexpr char kKeyringPath[] =
    "/api/v1/namespaces/ringmaster-system/secrets/ringmaster-keyring";
inline constexpr char kPinsPath[] = "/apis/apps/v1/namespaces/team-a/controllerrevisions";
inline constexpr char kPinPath[] =
    "/apis/apps/v1/namespaces/team-a/controllerrevisions/digits-run-job-uid";
inline constexpr char kServicesPath[] = "/api/v1/namespaces/team-a/services";
inline constexpr char kSecretsPath[] = "/api/v1/namespaces/team-a/secrets";

inline constexpr char kProfilesPath[] =
    "/apis/ringmaster.dev/v1alpha1/namespaces/ringmaster-system/trainingprofiles";
inline constexpr char kAllowsHostNetwork[] =
    R"({"a": {"namespaces": ["team-a"], "default": true, "allows": {"hostNetwork": true}}})";

// An in-memory API server with one namespace. Supports the verbs that the operator uses.
class FakeApi {
 public:
  FakeApi() {
    http.on_send = [this](const http::Request& request) { return Serve(request); };
    objects[kJobPath] = {
        {"metadata",
         {{"name", "digits"},
          {"namespace", "team-a"},
          {"uid", "job-uid"},
          {"resourceVersion", "1"},
          {"generation", 1}}},
        {"spec", {{"image", "i"}, {"command", {"x"}}, {"worker", {{"replicas", 3}}}}}};
  }

  std::size_t Count(const std::string& collection) const {
    std::size_t count = 0;
    for (const auto& [path, object] : objects)
      count += path.rfind(collection + "/", 0) == 0 ? 1 : 0;
    return count;
  }

  http::FakeHttpClient http;
  std::map<std::string, json> objects;                               // by path
  std::map<std::string, std::pair<int, std::string>> refuse_create;  // collection -> answer
  std::string refuse_delete;                                         // path
  int writes_left = -1;  // all writes after this many fail, as if the operator was killed; -1: none
  std::vector<std::string> secret_reads;

 private:
  Result<http::Response> Serve(const http::Request& request) {
    const std::lock_guard lock(mutex_);
    const std::string path = request.path.substr(0, request.path.find('?'));
    if (request.method != http::Method::kGet) {
      if (writes_left == 0) return Error{ErrorKind::kUnavailable, "killed"};
      if (writes_left > 0) --writes_left;
    }
    switch (request.method) {
      case http::Method::kGet:
        return Get(path);
      case http::Method::kPost:
        return Create(path, *ParseJson(request.body));
      case http::Method::kPatch:
        return Patch(path, *ParseJson(request.body));
      case http::Method::kDelete:
        return Delete(path);
      default:
        return http::Response{.status = 405};
    }
  }
  http::Response Get(const std::string& path) {
    if (path.find("/secrets/") != std::string::npos) secret_reads.push_back(path);
    const auto found = objects.find(path);
    return found == objects.end() ? Refuse(404, "NotFound")
                                  : http::Response{200, {}, found->second.dump()};
  }
  http::Response Create(const std::string& path, json object) {
    const auto refusal = refuse_create.find(path);
    if (refusal != refuse_create.end())
      return Refuse(refusal->second.first, "Forbidden", refusal->second.second);
    const std::string at = path + "/" + object["metadata"]["name"].get<std::string>();
    if (objects.contains(at)) return Refuse(409, "AlreadyExists");
    object["metadata"]["uid"] = "uid-" + std::to_string(++version_);
    object["metadata"]["resourceVersion"] = std::to_string(version_);
    object["metadata"]["creationTimestamp"] = "2026-11-20T10:00:00Z";
    if (path == kServicesPath && !object["spec"].contains("clusterIP"))
      object["spec"]["clusterIP"] = "10.0.0.1";
    objects[at] = object;
    return {201, {}, object.dump()};
  }
  http::Response Patch(std::string path, const json& patch) {
    if (path.ends_with("/status")) path.resize(path.size() - 7);
    const auto found = objects.find(path);
    if (found == objects.end()) return Refuse(404, "NotFound");
    const std::string wanted = kube::GetString(patch, {"metadata", "resourceVersion"});
    if (!wanted.empty() && wanted != found->second["metadata"]["resourceVersion"])
      return Refuse(409, "Conflict");
    found->second.merge_patch(patch);
    found->second["metadata"]["resourceVersion"] = std::to_string(++version_);
    return {200, {}, found->second.dump()};
  }
  http::Response Delete(const std::string& path) {
    if (path == refuse_delete) return Refuse(403, "Forbidden");
    return objects.erase(path) > 0 ? http::Response{200, {}, "{}"} : Refuse(404, "NotFound");
  }
  static http::Response Refuse(int code, const char* reason, const std::string& message = "no") {
    return {
        code,
        {},
        json{{"kind", "Status"}, {"reason", reason}, {"message", message}, {"code", code}}.dump()};
  }

  std::mutex mutex_;
  int64_t version_ = 100;
};

class Events final : public runtime::EventSink {
 public:
  void Record(runtime::Event event) override { reasons.push_back(event.reason); }
  std::vector<std::string> reasons;
};

class Ends final : public JobObserver {
 public:
  void OnChange(const JobChange& change) override {
    if (change.end) reasons.push_back(change.end->reason);
  }
  std::vector<std::string> reasons;
};

// One process of the operator, with all its memory. Create a new one to simulate a restart.
struct Operator {
  explicit Operator(FakeApi& the_api, const char* the_presets = "", Scope the_scope = {},
                    NetworkIsolation the_isolation = {}, Injection the_injection = {})
      : api(the_api),
        presets(*ReadPresets(the_presets)),
        scope(std::move(the_scope)),
        isolation(std::move(the_isolation)),
        injection(std::move(the_injection)) {}

  // Fills the stores, as the watches would.
  void Sync() {
    Fill(jobs, "/trainingjobs/");
    Fill(pods, "/pods/");
    Fill(services, "/services/");
    Fill(profiles, "/trainingprofiles/");
  }
  // Reconciles until nothing changes any more.
  void Settle() {
    for (int i = 0; i < 20; ++i) {
      Sync();
      const std::size_t sent = api.http.Sent().size();
      (void)reconciler.Reconcile("team-a/digits");
      if (api.http.Sent().size() == sent) return;
    }
  }

  FakeApi& api;
  FakeClock clock;
  kube::KubeClient client{api.http, nullptr};
  runtime::FreshnessGate freshness{clock};
  runtime::RequestPool pool{2};
  Events events;
  Ends ends;
  Keyring keyring{client, clock, "ringmaster-system"};
  LauncherPoller launchers{clock, [](const std::string&) {}};
  std::string default_image{};
  JobStore jobs{[this](const json& object) {
    return api::DecodeTrainingJobWithImage(object, default_image);
  }};
  PodStore pods{ProjectPod};
  ServiceStore services{ProjectService};
  NodeStore nodes{ProjectNode};
  ProfileStore profiles{ReadProfile};
  std::map<std::string, ProfilePtr> presets;
  Scope scope;
  NetworkIsolation isolation;
  Injection injection;
  Reconciler reconciler{
      {.tools = {clock, client, freshness, pool, events, isolation, scope.installation, &ends,
                 injection},
       .jobs = jobs,
       .pods = pods,
       .services = services,
       .nodes = nodes,
       .keyring = keyring,
       .launchers = launchers,
       .profiles = {.stored = profiles, .presets = presets, .operator_ns = "ringmaster-system"},
       .scope = scope,
       .leader_term = [] { return 1; }}};

 private:
  template <typename Store>
  void Fill(Store& store, const char* part) {
    for (const auto& [path, object] : api.objects) {
      if (path.find(part) != std::string::npos) {
        ASSERT_TRUE(store.Stage(object, *kube::ReadObjectMeta(object)).ok());
      }
    }
    store.Swap("1");
  }
};

inline api::TrainingJobStatus StatusOf(const FakeApi& api) {
  return api::DecodeTrainingJob(api.objects.at(kJobPath))->status;
}

inline const api::Condition& ConditionOf(const FakeApi& api, const char* type) {
  static api::TrainingJobStatus status;
  status = StatusOf(api);
  static const api::Condition kNone;
  const api::Condition* found = api::FindCondition(status.conditions, type);
  return found == nullptr ? kNone : *found;
}

// Returns a TrainingProfile of the operator's namespace, as the API server stores it.
inline json& ProfileOf(FakeApi& api, const std::string& name) {
  return api.objects[std::string(kProfilesPath) + "/" + name];
}
inline void PutProfile(FakeApi& api, const std::string& name, json spec) {
  static int version = 0;
  ProfileOf(api, name) = {{"metadata",
                           {{"name", name},
                            {"namespace", "ringmaster-system"},
                            {"uid", "profile-" + name},
                            {"generation", ++version},
                            {"resourceVersion", std::to_string(version)}}},
                          {"spec", std::move(spec)}};
}

// Returns spec.worker.template of the job, as the API server stores it.
inline json& TemplateOf(FakeApi& api) {
  return api.objects[kJobPath]["spec"]["worker"]["template"];
}
inline const json kHarmless{{"metadata", {{"labels", {{"a", "b"}}}}}};
inline const json kEvil{
    {"spec",
     {{"hostPID", true},
      {"volumes", json::array({{{"name", "h"}, {"hostPath", {{"path", "/"}}}}})}}}};
inline void Suspend(FakeApi& api, bool suspend) {
  api.objects[kJobPath]["spec"]["suspend"] = suspend;
}

// Returns a forged copy of the ControllerRevision in which the operator keeps the run's spec.
inline json ForgedPin(const json& spec, const char* owner_uid = "job-uid") {
  return {{"metadata",
           {{"name", "digits-run-job-uid"},
            {"namespace", "team-a"},
            {"uid", "forged"},
            {"resourceVersion", "7"},
            {"ownerReferences", json::array({{{"kind", "TrainingJob"},
                                              {"name", "digits"},
                                              {"uid", owner_uid},
                                              {"controller", true}}})}}},
          {"data", {{"spec", spec}}},
          {"revision", 1}};
}

inline const NetworkIsolation kIsolated{.enabled = true, .operator_ns = "ringmaster-system"};

}  // namespace ringmaster::job
