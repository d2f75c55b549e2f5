#include "operator/job/controller/reconciler.h"

#include <algorithm>
#include <memory>
#include <random>
#include <set>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "common/control/pod_contract.h"
#include "common/json/json.h"
#include "operator/api/codec.h"
#include "operator/api/conditions.h"
#include "operator/api/names.h"
#include "operator/job/controller/run_pin.h"
#include "operator/job/planner/removal_plan.h"
#include "operator/kube/json_access.h"
#include "tests/fakes/fake_clock.h"
#include "tests/fakes/fake_http_client.h"

namespace ringmaster::job {
namespace {

using nlohmann::json;

constexpr char kJobPath[] = "/apis/ringmaster.dev/v1alpha1/namespaces/team-a/trainingjobs/digits";
constexpr char kPodsPath[] = "/api/v1/namespaces/team-a/pods";
constexpr char kPoliciesPath[] = "/apis/networking.k8s.io/v1/namespaces/team-a/networkpolicies";
constexpr char kKeyringPath[] = "/api/v1/namespaces/ringmaster-system/secrets/ringmaster-keyring";
constexpr char kPinsPath[] = "/apis/apps/v1/namespaces/team-a/controllerrevisions";
constexpr char kPinPath[] =
    "/apis/apps/v1/namespaces/team-a/controllerrevisions/digits-run-job-uid";
constexpr char kServicesPath[] = "/api/v1/namespaces/team-a/services";

constexpr char kProfilesPath[] =
    "/apis/ringmaster.dev/v1alpha1/namespaces/ringmaster-system/trainingprofiles";
constexpr char kAllowsHostNetwork[] =
    R"({"a": {"namespaces": ["team-a"], "default": true, "allows": {"hostNetwork": true}}})";

// An API server of one namespace in memory: enough of it for the verbs of the operator.
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
  int writes_left = -1;  // after so many writes the process is dead; -1: never
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

// One life of the operator: everything it keeps in memory. A new one is a restart.
struct Operator {
  explicit Operator(FakeApi& the_api, const char* the_presets = "", Scope the_scope = {},
                    NetworkIsolation the_isolation = {})
      : api(the_api),
        presets(*ReadPresets(the_presets)),
        scope(std::move(the_scope)),
        isolation(std::move(the_isolation)) {}

  // What the watches would bring.
  void Sync() {
    Fill(jobs, "/trainingjobs/");
    Fill(pods, "/pods/");
    Fill(services, "/services/");
    Fill(profiles, "/trainingprofiles/");
  }
  // Until nothing changes any more.
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
  JobStore jobs{api::DecodeTrainingJob};
  PodStore pods{ProjectPod};
  ServiceStore services{ProjectService};
  NodeStore nodes{ProjectNode};
  ProfileStore profiles{ReadProfile};
  std::map<std::string, ProfilePtr> presets;
  Scope scope;
  NetworkIsolation isolation;
  Reconciler reconciler{
      {.tools = {clock, client, freshness, pool, events, isolation, scope.installation, &ends},
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

api::TrainingJobStatus StatusOf(const FakeApi& api) {
  return api::DecodeTrainingJob(api.objects.at(kJobPath))->status;
}

const api::Condition& ConditionOf(const FakeApi& api, const char* type) {
  static api::TrainingJobStatus status;
  status = StatusOf(api);
  static const api::Condition kNone;
  const api::Condition* found = api::FindCondition(status.conditions, type);
  return found == nullptr ? kNone : *found;
}

// A TrainingProfile in the operator's namespace, as the API server has it.
json& ProfileOf(FakeApi& api, const std::string& name) {
  return api.objects[std::string(kProfilesPath) + "/" + name];
}
void PutProfile(FakeApi& api, const std::string& name, json spec) {
  static int version = 0;
  ProfileOf(api, name) = {{"metadata",
                           {{"name", name},
                            {"namespace", "ringmaster-system"},
                            {"uid", "profile-" + name},
                            {"resourceVersion", std::to_string(++version)}}},
                          {"spec", std::move(spec)}};
}

TEST(Reconciler, WhatNoProfileAllowsNeverGetsAPod) {
  FakeApi api;
  api.objects[kJobPath]["spec"]["network"] = {{"hostNetwork", true}};
  Operator op(api);

  op.Settle();

  EXPECT_EQ(api.Count(kPodsPath), 0U);
  EXPECT_EQ(ConditionOf(api, api::kFailed).reason, "") << "a profile may come yet";
  EXPECT_EQ(ConditionOf(api, api::kWorkersReady).reason, api::kReasonRefusedByProfile);
  EXPECT_NE(ConditionOf(api, api::kWorkersReady).message.find("spec.network.hostNetwork"),
            std::string::npos);
}

TEST(Reconciler, AJobThatNoProfileAllowsBeginsOnceOneDoes) {
  FakeApi api;
  api.objects[kJobPath]["spec"]["network"] = {{"hostNetwork", true}};
  Operator op(api);
  op.Settle();
  ASSERT_EQ(api.Count(kPodsPath), 0U);

  PutProfile(api, "late",
             {{"namespaces", {"team-a"}}, {"default", true}, {"allows", {{"hostNetwork", true}}}});
  op.Settle();

  EXPECT_EQ(api.Count(kPodsPath), 4U);
  EXPECT_EQ(api.objects[kJobPath]["status"]["profile"], "late");
}

TEST(Reconciler, ADefaultThatComesLaterLimitsWhatRunsWithoutOne) {
  FakeApi api;
  Operator op(api);
  op.Settle();
  ASSERT_EQ(api.objects[kPinPath]["data"]["profile"], kRestricted);
  const json lenient{{"namespaces", {"team-a"}}, {"default", true}};
  json strict = lenient;
  strict["limits"] = {{"workers", 1}};

  PutProfile(api, "default", strict);
  api.objects.erase(std::string(kPodsPath) + "/digits-worker-1");
  op.Settle();

  EXPECT_EQ(api.Count(kPodsPath), 3U);
  EXPECT_NE(ConditionOf(api, api::kWorkersReady).message.find("at most 1 workers"),
            std::string::npos);
  PutProfile(api, "default", lenient);
  op.Settle();
  EXPECT_EQ(api.Count(kPodsPath), 4U);
}

TEST(Reconciler, AJobWaitsWhileTheDefaultOfItsNamespaceCannotBeRead) {
  FakeApi api;
  PutProfile(api, "default",
             {{"namespaces", {"team-a"}}, {"default", true}, {"limits", {{"gpus", "eight"}}}});
  Operator op(api);

  op.Settle();

  EXPECT_EQ(api.Count(kPodsPath), 0U);
  EXPECT_NE(ConditionOf(api, api::kWorkersReady).message.find("cannot be read"), std::string::npos);
}

TEST(Reconciler, WhatItsProfileAllowsGetsItsPods) {
  FakeApi api;
  api.objects[kJobPath]["spec"]["network"] = {{"hostNetwork", true}};
  Operator op(api, kAllowsHostNetwork);

  op.Settle();

  EXPECT_EQ(api.Count(kPodsPath), 4U);
  EXPECT_EQ(api.objects[std::string(kPodsPath) + "/digits-worker-0"]["spec"]["hostNetwork"], true);
  EXPECT_FALSE(
      api.objects[std::string(kPodsPath) + "/digits-launcher-1"]["spec"].contains("hostNetwork"));
}

TEST(Reconciler, WhatAPodsEventsSayOfItsStartIsInTheConditionAndAskedSeldom) {
  FakeApi api;
  Operator op(api);
  op.Settle();
  json& pod = api.objects[std::string(kPodsPath) + "/digits-worker-0"];
  pod["spec"]["nodeName"] = "n1";
  pod["status"] = {{"phase", "Pending"}};
  std::vector<std::string> questions;
  api.http.on_stream = [&](const http::Request& request) {
    questions.push_back(request.path);
    const json event = {{"regarding", {{"uid", pod["metadata"]["uid"]}}},
                        {"type", "Warning"},
                        {"reason", "FailedMount"},
                        {"note", "secret \"keys\" not found"},
                        {"eventTime", "2026-11-20T10:00:01Z"}};
    return http::FakeStream{
        .chunks = {"", json{{"metadata", {{"resourceVersion", "7"}}}, {"items", {event}}}.dump()}};
  };

  op.Settle();
  EXPECT_TRUE(questions.empty()) << "it has only just begun";
  op.clock.Advance(std::chrono::seconds(5));
  op.Settle();
  op.Settle();

  ASSERT_EQ(questions.size(), 1U);
  EXPECT_NE(questions[0].find("/apis/events.k8s.io/v1/namespaces/team-a/events?"),
            std::string::npos);
  EXPECT_NE(questions[0].find("regarding.uid%3D" + pod["metadata"]["uid"].get<std::string>()),
            std::string::npos)
      << questions[0];
  EXPECT_EQ(ConditionOf(api, api::kWorkersReady).reason, api::kReasonPodNotStarting);
  EXPECT_EQ(ConditionOf(api, api::kWorkersReady).message,
            "digits-worker-0 on node n1 does not start: FailedMount: secret \"keys\" not found");
  api.http.on_stream = [](const http::Request&) {
    return http::FakeStream{.status = 403, .body = "{}"};
  };
  op.clock.Advance(std::chrono::seconds(60));
  op.Settle();
  EXPECT_NE(ConditionOf(api, api::kWorkersReady).reason, api::kReasonPodNotStarting)
      << "a right that was taken away costs the words, and nothing else";
}

TEST(Reconciler, AJobThatOutgrowsItsNamespaceKeepsItsPodsAndGetsNoMore) {
  FakeApi api;
  Operator op(api, R"({"a": {"namespaces": ["*"], "default": true, "limits": {"workers": 3}}})");
  op.Settle();
  ASSERT_EQ(api.Count(kPodsPath), 4U);

  api.objects[kJobPath]["spec"]["worker"]["replicas"] = 5;
  op.Settle();

  EXPECT_EQ(api.Count(kPodsPath), 4U);
  EXPECT_EQ(ConditionOf(api, api::kFailed).reason, "");
  EXPECT_EQ(ConditionOf(api, api::kWorkersReady).reason, api::kReasonRefusedByProfile);
  EXPECT_NE(ConditionOf(api, api::kWorkersReady).message.find("at most 3 workers"),
            std::string::npos);

  api.objects[kJobPath]["spec"]["worker"]["replicas"] = 3;
  op.Settle();

  EXPECT_NE(ConditionOf(api, api::kWorkersReady).reason, api::kReasonRefusedByProfile);
}

TEST(Reconciler, AStricterProfileEndsNoJobThatHasBegunAndReplacesNothingOfIt) {
  FakeApi api;
  api.objects[kJobPath]["spec"]["worker"]["privileged"] = true;
  Operator(
      api,
      R"({"a": {"namespaces": ["*"], "default": true, "allows": {"privileged": true, "root": true}}})")
      .Settle();
  ASSERT_EQ(api.Count(kPodsPath), 4U);
  api.objects.erase(std::string(kPodsPath) + "/digits-worker-1");

  Operator(api).Settle();

  EXPECT_EQ(api.Count(kPodsPath), 3U);
  EXPECT_EQ(ConditionOf(api, api::kFailed).reason, "");
  EXPECT_EQ(ConditionOf(api, api::kWorkersReady).reason, api::kReasonRefusedByProfile);
}

// spec.worker.template of the job, as the API server has it.
json& TemplateOf(FakeApi& api) { return api.objects[kJobPath]["spec"]["worker"]["template"]; }
const json kHarmless{{"metadata", {{"labels", {{"a", "b"}}}}}};
const json kEvil{{"spec",
                  {{"hostPID", true},
                   {"volumes", json::array({{{"name", "h"}, {"hostPath", {{"path", "/"}}}}})}}}};

std::set<std::string> RevisionsOfPods(const FakeApi& api) {
  std::set<std::string> revisions;
  for (const auto& [path, object] : api.objects) {
    if (path.rfind(kPodsPath, 0) == 0) {
      revisions.insert(kube::GetString(object, {"metadata", "labels", api::kLabelRevision}));
    }
  }
  return revisions;
}
bool AnyPodIsEvil(const FakeApi& api) {
  return std::any_of(api.objects.begin(), api.objects.end(), [](const auto& entry) {
    return entry.first.rfind(kPodsPath, 0) == 0 &&
           kube::Find(entry.second, {"spec", "hostPID"}) != nullptr;
  });
}
void Suspend(FakeApi& api, bool suspend) { api.objects[kJobPath]["spec"]["suspend"] = suspend; }

TEST(Reconciler, AJobsPodsBearTheRevisionOfTheTextThatIsPinned) {
  FakeApi api;
  TemplateOf(api) = kHarmless;
  Operator op(api);

  op.Settle();

  ASSERT_EQ(api.Count(kPinsPath), 1U);
  const json& pin = api.objects[kPinPath];
  EXPECT_EQ(pin["metadata"]["ownerReferences"][0]["uid"], "job-uid");
  EXPECT_EQ(pin["data"]["spec"]["worker"]["template"], kHarmless);
  EXPECT_EQ(
      RevisionsOfPods(api),
      std::set<std::string>{pin["metadata"]["labels"][api::kLabelRevision].get<std::string>()});
}

// The attack that an audit found: judged while suspended, changed afterwards.
TEST(Reconciler, ATemplateIsJudgedAsItIsWhenItsPodsAreMade) {
  FakeApi api;
  TemplateOf(api) = kHarmless;
  Suspend(api, true);
  Operator op(api);
  op.Settle();
  ASSERT_EQ(ConditionOf(api, api::kSuspended).status, api::ConditionStatus::kTrue);

  TemplateOf(api) = kEvil;
  Suspend(api, false);
  op.Settle();

  EXPECT_EQ(api.Count(kPodsPath), 0U);
  EXPECT_EQ(ConditionOf(api, api::kStalled).reason, api::kReasonInvalidSpec);

  TemplateOf(api) = kHarmless;
  op.Settle();

  EXPECT_EQ(api.Count(kPodsPath), 4U);
  EXPECT_EQ(ConditionOf(api, api::kStalled).reason, "");
}

TEST(Reconciler, AStatusProvesNothingAboutATemplate) {
  for (const bool by_policy : {false, true}) {
    FakeApi api;
    if (by_policy) {
      api.objects[kJobPath]["spec"]["worker"]["privileged"] = true;
    } else {
      TemplateOf(api) = kEvil;
    }
    api.objects[kJobPath]["status"] = {{"internal", {{"launcherTerm", 7}}}, {"epoch", 3}};
    Operator op(api);

    op.Settle();

    EXPECT_EQ(api.Count(kPodsPath), 0U);
    EXPECT_EQ(ConditionOf(api, api::kStalled).reason, by_policy ? "" : api::kReasonInvalidSpec);
  }
}

TEST(Reconciler, AChangeWhileAJobRunsIsRefusedAndNamedAndItsNewPodsAreMadeFromTheSameText) {
  for (const bool restart : {false, true}) {
    FakeApi api;
    TemplateOf(api) = kHarmless;
    auto op = std::make_unique<Operator>(api);
    op->Settle();
    const std::set<std::string> revision = RevisionsOfPods(api);

    TemplateOf(api) = kEvil;
    api.objects.erase(std::string(kPodsPath) + "/digits-worker-1");
    if (restart) op = std::make_unique<Operator>(api);
    op->Settle();

    EXPECT_EQ(api.Count(kPodsPath), 4U);
    EXPECT_FALSE(AnyPodIsEvil(api));
    EXPECT_EQ(RevisionsOfPods(api), revision);
    const api::Condition refused = ConditionOf(api, api::kChangePending);
    EXPECT_EQ(refused.status, api::ConditionStatus::kTrue);
    EXPECT_NE(refused.message.find("spec.worker.template.spec"), std::string::npos);
    EXPECT_EQ(ConditionOf(api, api::kFailed).reason, "");
    EXPECT_EQ(
        std::count(op->events.reasons.begin(), op->events.reasons.end(), api::kEventChangePending),
        1);

    TemplateOf(api) = kHarmless;
    op->Settle();

    EXPECT_EQ(ConditionOf(api, api::kChangePending).status, api::ConditionStatus::kFalse);
  }
}

TEST(Reconciler, WithAnAllowedChangeASuspendedJobGoesOn) {
  for (const bool restart : {false, true}) {
    FakeApi api;
    auto op = std::make_unique<Operator>(api);
    op->Settle();
    const std::set<std::string> before = RevisionsOfPods(api);
    TemplateOf(api) = kHarmless;
    Suspend(api, true);
    op->Settle();
    op->clock.Advance(std::chrono::seconds(31));
    op->Settle();
    ASSERT_EQ(ConditionOf(api, api::kSuspended).status, api::ConditionStatus::kTrue);
    ASSERT_EQ(api.Count(kPodsPath), 0U);
    EXPECT_EQ(api.Count(kPinsPath), 0U) << "no run, no text of a run";

    if (restart) op = std::make_unique<Operator>(api);
    Suspend(api, false);
    op->Settle();

    EXPECT_EQ(api.Count(kPodsPath), 4U);
    EXPECT_EQ(RevisionsOfPods(api).size(), 1U);
    EXPECT_NE(RevisionsOfPods(api), before);
    EXPECT_EQ(api.objects[std::string(kPodsPath) + "/digits-worker-0"]["metadata"]["labels"]["a"],
              "b");
    EXPECT_NE(ConditionOf(api, api::kChangePending).status, api::ConditionStatus::kTrue);
  }
}

TEST(Reconciler, ASuspendedJobWhoseTemplateIsNotAllowedGetsNoPodAndIsNotEnded) {
  FakeApi api;
  Operator op(api);
  op.Settle();
  Suspend(api, true);
  op.Settle();
  op.clock.Advance(std::chrono::seconds(31));
  op.Settle();
  ASSERT_EQ(api.Count(kPodsPath), 0U);

  TemplateOf(api) = kEvil;
  Suspend(api, false);
  op.Settle();

  EXPECT_EQ(api.Count(kPodsPath), 0U);
  EXPECT_EQ(ConditionOf(api, api::kFailed).reason, "");
  EXPECT_NE(ConditionOf(api, api::kWorkersReady).message.find("spec.worker.template.spec.hostPID"),
            std::string::npos);

  TemplateOf(api) = kHarmless;
  op.Settle();

  EXPECT_EQ(api.Count(kPodsPath), 4U);
}

// What somebody else may put where the operator keeps the text.
json ForgedPin(const json& spec, const char* owner_uid = "job-uid") {
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

TEST(Reconciler, AForgedPinWithWhatIsRefusedGetsNoPod) {
  for (const bool begun : {false, true}) {
    FakeApi api;
    if (begun) {
      Operator(api).Settle();
      api.objects.erase(std::string(kPodsPath) + "/digits-worker-1");
    }
    api.objects[kPinPath] =
        ForgedPin({{"image", "i"}, {"command", {"x"}}, {"worker", {{"template", kEvil}}}});
    Operator op(api);

    op.Settle();

    EXPECT_FALSE(AnyPodIsEvil(api));
    EXPECT_NE(
        ConditionOf(api, api::kWorkersReady).message.find("spec.worker.template.spec.hostPID"),
        std::string::npos);
  }
}

TEST(Reconciler, AForgedPinWithWhatIsAllowedGetsAWorldOfItsOwnText) {
  FakeApi api;
  Operator(api).Settle();
  const std::set<std::string> before = RevisionsOfPods(api);
  api.objects[kPinPath] =
      ForgedPin({{"image", "i"}, {"command", {"x"}}, {"worker", {{"template", kHarmless}}}});
  Operator op(api);

  op.Settle();

  EXPECT_EQ(RevisionsOfPods(api).size(), 1U) << "two texts never meet in one world";
  EXPECT_NE(RevisionsOfPods(api), before);
  EXPECT_EQ(api.Count(kPodsPath), 4U);
}

TEST(Reconciler, WhatIsNoPinStandsInTheWayOfItsJobAloneAndIsNamed) {
  json of_nobody = ForgedPin(json::object());
  of_nobody["metadata"].erase("ownerReferences");
  // Its name has this job's UID in it, so nothing will come and remove one of a namesake.
  const json of_namesake = ForgedPin(json::object(), "earlier-uid");
  for (const json& foreign :
       {of_nobody, of_namesake, ForgedPin("none"), ForgedPin({{"command", 7}})}) {
    FakeApi api;
    api.objects[kPinPath] = foreign;
    Operator op(api);

    op.Settle();

    EXPECT_EQ(api.Count(kPodsPath), 0U);
    EXPECT_EQ(ConditionOf(api, api::kWorkersReady).reason, api::kReasonNameConflict);
    EXPECT_NE(
        ConditionOf(api, api::kWorkersReady).message.find("ControllerRevision digits-run-job-uid"),
        std::string::npos);
    EXPECT_EQ(api.objects[kPinPath], foreign);
  }
}

TEST(Reconciler, ADeletedPinComesBackWithTheTextOfTheRunningPods) {
  FakeApi api;
  Operator(api).Settle();
  const json pin = api.objects[kPinPath];
  const json launcher = api.objects[std::string(kPodsPath) + "/digits-launcher-1"];
  api.objects.erase(kPinPath);

  Operator(api).Settle();

  EXPECT_EQ(api.objects[kPinPath]["data"], pin["data"]);
  EXPECT_EQ(api.objects[std::string(kPodsPath) + "/digits-launcher-1"], launcher);
}

json OnNodesNetwork(const char* mark, const char* ns = "team-a") {
  return {{"namespaces", {ns}},
          {"allows", {{"hostNetwork", true}}},
          {"workload",
           {{"network", {{"hostNetwork", true}}},
            {"worker", {{"env", json::array({{{"name", "MARK"}, {"value", mark}}})}}}}}};
}
std::string MarkOf(const json& pod) {
  for (const json& variable : pod.at("spec").at("containers").at(0).at("env")) {
    if (variable.at("name") == "MARK") return variable.at("value").get<std::string>();
  }
  return "";
}
// Of the workers that there are.
std::set<std::string> Marks(const FakeApi& api) {
  std::set<std::string> marks;
  for (const auto& [path, pod] : api.objects) {
    if (path.rfind(std::string(kPodsPath) + "/digits-worker", 0) == 0) marks.insert(MarkOf(pod));
  }
  return marks;
}
using Names = std::set<std::string>;

TEST(Reconciler, AJobRunsWithWhatItsProfileSetsAndItsPinSaysSo) {
  FakeApi api;
  PutProfile(api, "gpu", OnNodesNetwork("gpu"));
  api.objects[kJobPath]["spec"]["profile"] = "gpu";
  Operator op(api);

  op.Settle();

  EXPECT_EQ(api.Count(kPodsPath), 4U);
  EXPECT_EQ(Marks(api), Names{"gpu"});
  EXPECT_EQ(api.objects[std::string(kPodsPath) + "/digits-worker-0"]["spec"]["hostNetwork"], true);
  EXPECT_EQ(api.objects[kPinPath]["data"]["profile"], "gpu");
  EXPECT_EQ(api.objects[kJobPath]["status"]["profile"], "gpu");
  EXPECT_EQ(api.objects[kPinPath]["data"]["spec"]["network"]["hostNetwork"], true);
  EXPECT_EQ(ConditionOf(api, api::kChangePending).reason, "");
}

TEST(Reconciler, AJobWaitsForAProfileThatIsNotForItsNamespaceAndDoesNotEnd) {
  for (const bool elsewhere : {false, true}) {
    FakeApi api;
    if (elsewhere) PutProfile(api, "gpu", OnNodesNetwork("gpu", "team-b"));
    api.objects[kJobPath]["spec"]["profile"] = "gpu";
    Operator op(api);

    op.Settle();

    EXPECT_EQ(api.Count(kPodsPath), 0U);
    EXPECT_EQ(api.Count(kPinsPath), 0U);
    EXPECT_EQ(ConditionOf(api, api::kFailed).reason, "");
    EXPECT_EQ(ConditionOf(api, api::kWorkersReady).reason, api::kReasonRefusedByProfile);
    PutProfile(api, "gpu", OnNodesNetwork("gpu"));
    op.Settle();
    EXPECT_EQ(Marks(api), Names{"gpu"});
  }
}

TEST(Reconciler, AChangeOfAProfileReachesAJobThatIsSuspendedAndResumed) {
  for (const bool restart : {false, true}) {
    FakeApi api;
    PutProfile(api, "gpu", OnNodesNetwork("before"));
    api.objects[kJobPath]["spec"]["profile"] = "gpu";
    auto op = std::make_unique<Operator>(api);
    op->Settle();

    PutProfile(api, "gpu", OnNodesNetwork("after"));
    api.objects.erase(std::string(kPodsPath) + "/digits-worker-1");
    if (restart) op = std::make_unique<Operator>(api);
    op->Settle();

    EXPECT_EQ(api.Count(kPodsPath), 4U);
    EXPECT_EQ(Marks(api), Names{"before"});
    EXPECT_EQ(ConditionOf(api, api::kChangePending).reason, api::kReasonChangedWhileRunning);

    Suspend(api, true);
    op->Settle();
    op->clock.Advance(std::chrono::seconds(31));
    op->Settle();
    ASSERT_EQ(api.Count(kPodsPath), 0U);
    Suspend(api, false);
    op->Settle();
    EXPECT_EQ(Marks(api), Names{"after"});
  }
}

TEST(Reconciler, AProfileThatIsNarrowedOrGoneStopsNewPodsAndEndsNone) {
  const json narrow = {{"namespaces", {"team-a"}}};
  const json foreign = OnNodesNetwork("gpu", "team-b");
  for (const json& to : {narrow, foreign, json()}) {
    for (const bool restart : {false, true}) {
      FakeApi api;
      PutProfile(api, "gpu", OnNodesNetwork("gpu"));
      api.objects[kJobPath]["spec"]["profile"] = "gpu";
      auto op = std::make_unique<Operator>(api);
      op->Settle();
      ASSERT_EQ(api.Count(kPodsPath), 4U);

      if (to.is_null()) {
        api.objects.erase(std::string(kProfilesPath) + "/gpu");
      } else {
        PutProfile(api, "gpu", to);
      }
      api.objects.erase(std::string(kPodsPath) + "/digits-worker-1");
      if (restart) op = std::make_unique<Operator>(api);
      op->Settle();

      EXPECT_EQ(api.Count(kPodsPath), 3U) << to;
      EXPECT_EQ(ConditionOf(api, api::kFailed).reason, "");
      EXPECT_EQ(ConditionOf(api, api::kWorkersReady).reason, api::kReasonRefusedByProfile);
      PutProfile(api, "gpu", OnNodesNetwork("gpu"));
      op->Settle();
      EXPECT_EQ(api.Count(kPodsPath), 4U);
      EXPECT_EQ(Marks(api), Names{"gpu"});
    }
  }
}

TEST(Reconciler, ARunKeepsTheProfileThatItBeganWith) {
  struct Row {
    const char* what;
    void (*change)(FakeApi& api);
  };
  const Row table[] = {
      {"the job names another",
       [](FakeApi& api) { api.objects[kJobPath]["spec"]["profile"] = "b"; }},
      {"the job names one that is not there",
       [](FakeApi& api) { api.objects[kJobPath]["spec"]["profile"] = "c"; }},
      {"another default",
       [](FakeApi& api) {
         ProfileOf(api, "a")["spec"].erase("default");
         json spec = OnNodesNetwork("b");
         spec["default"] = true;
         PutProfile(api, "b", spec);
       }},
      {"two defaults",
       [](FakeApi& api) {
         json spec = OnNodesNetwork("b");
         spec["default"] = true;
         PutProfile(api, "b", spec);
       }},
  };
  for (const Row& row : table) {
    for (const bool restart : {false, true}) {
      FakeApi api;
      json first = OnNodesNetwork("a");
      first["default"] = true;
      PutProfile(api, "a", first);
      PutProfile(api, "b", OnNodesNetwork("b"));
      auto op = std::make_unique<Operator>(api);
      op->Settle();
      ASSERT_EQ(Marks(api), Names{"a"});

      row.change(api);
      api.objects.erase(std::string(kPodsPath) + "/digits-worker-1");
      if (restart) op = std::make_unique<Operator>(api);
      op->Settle();

      EXPECT_EQ(api.Count(kPodsPath), 4U) << row.what;
      EXPECT_EQ(Marks(api), Names{"a"}) << row.what;
      EXPECT_NE(ConditionOf(api, api::kChangePending).message.find("spec.profile"),
                std::string::npos)
          << row.what;
    }
  }
}

TEST(Reconciler, AForgedPinUnderAForeignProfileGetsNoPod) {
  FakeApi api;
  Operator(api).Settle();
  PutProfile(api, "gpu", OnNodesNetwork("gpu", "team-b"));
  const json evil = {{"image", "i"}, {"command", {"x"}}, {"network", {{"hostNetwork", true}}}};
  api.objects[kPinPath] = ForgedPin(evil);
  api.objects[kPinPath]["data"]["profile"] = "gpu";
  Operator op(api);

  op.Settle();

  for (const auto& [path, object] : api.objects) {
    EXPECT_FALSE(path.rfind(kPodsPath, 0) == 0 && object["spec"].contains("hostNetwork")) << path;
  }
  EXPECT_EQ(ConditionOf(api, api::kWorkersReady).reason, api::kReasonRefusedByProfile);
}

TEST(Reconciler, AStoredProfileReplacesAPresetOfItsName) {
  FakeApi api;
  api.objects[kJobPath]["spec"]["network"] = {{"hostNetwork", true}};
  PutProfile(api, "a", {{"namespaces", {"team-a"}}, {"default", true}});
  Operator op(api, kAllowsHostNetwork);

  op.Settle();

  EXPECT_EQ(api.Count(kPodsPath), 0U);
  EXPECT_EQ(ConditionOf(api, api::kWorkersReady).reason, api::kReasonRefusedByProfile);
}

// What a template may be made of, as a pointer into it and a value.
struct Fragment {
  const char* pointer;
  const char* value;
  bool allowed;
};
constexpr Fragment kFragments[] = {
    {"/metadata/labels/team", R"("vision")", true},
    {"/metadata/annotations/note", R"("x")", true},
    {"/spec/nodeSelector/gpu", R"("yes")", true},
    {"/spec/containers/0/env/0", R"({"name": "A", "value": "1"})", true},
    {"/spec/tolerations/0", R"({"operator": "Exists"})", true},
    {"/spec/volumes/0", R"({"name": "v", "emptyDir": {}})", true},
    {"/spec/hostPID", "true", false},
    {"/spec/hostNetwork", "true", false},
    {"/spec/nodeName", R"("n")", false},
    {"/spec/serviceAccountName", R"("default")", false},
    {"/spec/securityContext/runAsUser", "0", false},
    {"/spec/containers/0/securityContext/privileged", "true", false},
    {"/spec/containers/0/ports/0/hostPort", "1", false},
    {"/spec/initContainers/0/securityContext/privileged", "true", false},
    {"/spec/volumes/0/hostPath/path", R"("/")", false},
};

json RandomTemplate(std::mt19937& random, bool& allowed) {
  json pod_template = json::object();
  allowed = true;
  // Half of them may not have what is refused, or nearly none would be allowed.
  const bool may_be_refused = random() % 2 == 0;
  for (const Fragment& fragment : kFragments) {
    if (random() % 4 != 0 || (!fragment.allowed && !may_be_refused)) continue;
    const json::json_pointer at(fragment.pointer);
    if (pod_template.contains(at)) continue;
    pod_template[at] = json::parse(fragment.value);
    allowed = allowed && fragment.allowed;
  }
  if (kube::Find(pod_template, {"spec", "containers"}) != nullptr) {
    pod_template["spec"]["containers"][0]["name"] = "worker";
  }
  return pod_template;
}

void ExpectHarmless(const json& pod, const std::string& what) {
  for (const Fragment& fragment : kFragments) {
    const json::json_pointer at(fragment.pointer);
    if (fragment.allowed || !pod.contains(at)) continue;
    EXPECT_NE(pod.at(at), json::parse(fragment.value)) << what << ": " << fragment.pointer;
  }
}

// Templates at random, each changed twice, whatever the job does meanwhile and whoever operates it.
TEST(Reconciler, NoSequenceOfChangesGetsAPodThatIsRefusedOrTwoTextsIntoOneWorld) {
  std::size_t pods = 0;
  for (unsigned seed = 0; seed < 30; ++seed) {
    std::mt19937 random(seed);
    const std::string what = "seed " + std::to_string(seed);
    FakeApi api;
    auto op = std::make_unique<Operator>(api);
    for (int step = 0; step < 3; ++step) {
      bool allowed = false;
      TemplateOf(api) = RandomTemplate(random, allowed);
      if (random() % 2 == 0) Suspend(api, random() % 2 == 0);
      if (random() % 3 == 0) op = std::make_unique<Operator>(api);
      if (random() % 2 == 0) api.objects.erase(std::string(kPodsPath) + "/digits-worker-1");
      op->Settle();
      op->clock.Advance(std::chrono::seconds(31));
      op->Settle();

      EXPECT_LE(RevisionsOfPods(api).size(), 1U) << what;
      if (!allowed && step == 0) {
        EXPECT_EQ(api.Count(kPodsPath), 0U) << what;
      }
    }
    for (const http::Request& request : api.http.Sent()) {
      if (request.method != http::Method::kPost || request.path.rfind(kPodsPath, 0) != 0) continue;
      ExpectHarmless(*ParseJson(request.body), what);
      ++pods;
    }
  }
  EXPECT_GT(pods, 50U) << "or nothing was tested";
}

const NetworkIsolation kIsolated{.enabled = true, .operator_ns = "ringmaster-system"};

TEST(Reconciler, AJobIsIsolatedBeforeItsWorkersAreMade) {
  FakeApi api;
  Operator op(api, "", {}, kIsolated);

  op.Settle();

  EXPECT_EQ(api.Count(kPoliciesPath), 2U);
  EXPECT_EQ(ConditionOf(api, api::kNetworkIsolated).status, api::ConditionStatus::kTrue);
  std::size_t policies = 0;
  for (const http::Request& request : api.http.Sent()) {
    if (request.method != http::Method::kPost) continue;
    if (request.path.rfind(kPoliciesPath, 0) == 0) ++policies;
    if (request.body.find("digits-worker-") != std::string::npos) {
      EXPECT_EQ(policies, 2U);
    }
  }
}

// An earlier leader whose clock was an hour ahead: without a correction the next worker waits for
// the hour to pass.
TEST(Reconciler, TimesOfTheFutureAreCorrectedAndDelayNoReplacement) {
  FakeApi api;
  Operator op(api);
  op.Settle();
  json& status = api.objects[kJobPath]["status"];
  status["failures"] = {{{"podUID", "a"}, {"reason", "Error"}, {"time", "2026-11-20T11:02:00Z"}},
                        {{"podUID", "b"}, {"reason", "Error"}, {"time", "2026-11-20T11:01:00Z"}},
                        {{"podUID", "c"}, {"reason", "Error"}, {"time", "2026-11-20T11:00:00Z"}}};
  api.objects.erase(std::string(kPodsPath) + "/digits-worker-1");

  op.Settle();
  op.clock.Advance(std::chrono::seconds(2));
  op.Settle();

  EXPECT_TRUE(api.objects.contains(std::string(kPodsPath) + "/digits-worker-1"));
  EXPECT_EQ(StatusOf(api).failures.at(0).time, "2026-11-20T10:00:00Z");
}

TEST(Reconciler, WithoutItsNetworkPoliciesAJobGetsNoWorker) {
  FakeApi api;
  api.refuse_create[kPoliciesPath] = {403, "networkpolicies is forbidden"};
  Operator op(api, "", {}, kIsolated);

  op.Settle();

  EXPECT_EQ(api.Count(std::string(kPodsPath) + "/digits-worker-0"), 0U);
  EXPECT_FALSE(api.objects.contains(std::string(kPodsPath) + "/digits-worker-0"));
  EXPECT_EQ(ConditionOf(api, api::kWorkersReady).reason, api::kReasonForbidden);
  EXPECT_EQ(ConditionOf(api, api::kNetworkIsolated).status, api::ConditionStatus::kFalse);
  EXPECT_NE(ConditionOf(api, api::kNetworkIsolated).message.find("networkpolicies is forbidden"),
            std::string::npos);
}

TEST(Reconciler, AForeignNetworkPolicyOfTheNameIsAConflict) {
  FakeApi api;
  api.objects[std::string(kPoliciesPath) + "/digits-job-uid"] = {{"metadata",
                                                                  {{"name", "digits-job-uid"},
                                                                   {"namespace", "team-a"},
                                                                   {"uid", "x"},
                                                                   {"resourceVersion", "1"}}}};
  Operator op(api, "", {}, kIsolated);

  op.Settle();

  EXPECT_FALSE(api.objects.contains(std::string(kPodsPath) + "/digits-worker-0"));
  EXPECT_EQ(ConditionOf(api, api::kWorkersReady).reason, api::kReasonNameConflict);
}

TEST(Reconciler, AJobFromBeforeNetworkPoliciesGetsThemAndKeepsItsPods) {
  FakeApi api;
  Operator(api).Settle();
  ASSERT_EQ(ConditionOf(api, api::kNetworkIsolated).reason, api::kReasonPoliciesOff);
  const json launcher = api.objects[std::string(kPodsPath) + "/digits-launcher-1"];

  Operator(api, "", {}, kIsolated).Settle();

  EXPECT_EQ(api.Count(kPoliciesPath), 2U);
  EXPECT_EQ(ConditionOf(api, api::kNetworkIsolated).status, api::ConditionStatus::kTrue);
  EXPECT_EQ(api.objects[std::string(kPodsPath) + "/digits-launcher-1"], launcher);
}

TEST(Reconciler, ANetworkPolicyThatSomebodyChangesOrDeletesIsPutRight) {
  FakeApi api;
  Operator op(api, "", {}, kIsolated);
  op.Settle();
  const std::string path = std::string(kPoliciesPath) + "/digits-job-uid";
  const json made = api.objects[path]["spec"];

  api.objects[path]["spec"]["podSelector"]["matchLabels"]["none"] = "has-it";
  api.objects[path]["spec"]["ingress"].push_back(json::object());
  op.clock.Advance(std::chrono::minutes(10));
  op.Settle();

  EXPECT_EQ(api.objects[path]["spec"], made);
  EXPECT_EQ(std::ranges::count(op.events.reasons, "NetworkPolicyRestored"), 1);

  api.objects.erase(path);
  op.clock.Advance(std::chrono::minutes(10));
  op.Settle();

  EXPECT_EQ(api.objects[path]["spec"], made);
  EXPECT_EQ(std::ranges::count(op.events.reasons, "NetworkPolicyRestored"), 2);
  EXPECT_EQ(ConditionOf(api, api::kNetworkIsolated).status, api::ConditionStatus::kTrue);

  api.http.ForgetSent();
  op.clock.Advance(std::chrono::minutes(10));
  op.Settle();

  int reads = 0;
  for (const http::Request& request : api.http.Sent()) {
    if (request.path.rfind(kPoliciesPath, 0) != 0) continue;
    EXPECT_EQ(request.method, http::Method::kGet);
    ++reads;
  }
  EXPECT_EQ(reads, 2) << "nothing is written where all is well";
}

TEST(Reconciler, AnOperatorThatStartsLooksAtTheNetworkPoliciesWhateverAStatusSays) {
  FakeApi api;
  Operator(api, "", {}, kIsolated).Settle();
  ASSERT_EQ(ConditionOf(api, api::kNetworkIsolated).status, api::ConditionStatus::kTrue);
  const json before = api.objects[std::string(kPoliciesPath) + "/digits-job-uid"]["spec"];
  api.objects.erase(std::string(kPoliciesPath) + "/digits-job-uid");
  api.objects[std::string(kPoliciesPath) + "/digits-job-uid-launcher"]["spec"]["ingress"] =
      json::array({json::object()});

  Operator(api, "", {}, kIsolated).Settle();

  EXPECT_EQ(api.objects[std::string(kPoliciesPath) + "/digits-job-uid"]["spec"], before);
  EXPECT_EQ(
      api.objects[std::string(kPoliciesPath) + "/digits-job-uid-launcher"]["spec"]["ingress"][0]
          .count("from"),
      1U);
}

TEST(Reconciler, AJobWhosePolicyIsSomebodyElsesSaysThatItIsNotIsolated) {
  FakeApi api;
  Operator op(api, "", {}, kIsolated);
  op.Settle();
  const std::string path = std::string(kPoliciesPath) + "/digits-job-uid";
  api.objects[path]["metadata"].erase("ownerReferences");
  op.clock.Advance(std::chrono::minutes(10));

  op.Settle();

  EXPECT_EQ(ConditionOf(api, api::kNetworkIsolated).status, api::ConditionStatus::kFalse);
  EXPECT_NE(ConditionOf(api, api::kNetworkIsolated).message.find("NetworkPolicy digits-job-uid"),
            std::string::npos);

  api.objects.erase(path);
  op.clock.Advance(std::chrono::minutes(1));
  op.Settle();

  EXPECT_TRUE(api.objects.contains(path));
  EXPECT_EQ(ConditionOf(api, api::kNetworkIsolated).status, api::ConditionStatus::kTrue);
}

TEST(Reconciler, SaysWhyAJobIsNotIsolated) {
  FakeApi off;
  Operator(off).Settle();
  EXPECT_EQ(off.Count(kPoliciesPath), 0U);
  EXPECT_EQ(ConditionOf(off, api::kNetworkIsolated).status, api::ConditionStatus::kFalse);
  EXPECT_EQ(ConditionOf(off, api::kNetworkIsolated).reason, api::kReasonPoliciesOff);

  FakeApi host;
  host.objects[kJobPath]["spec"]["network"] = {{"hostNetwork", true}};
  Operator(host, kAllowsHostNetwork, {}, kIsolated).Settle();
  EXPECT_EQ(ConditionOf(host, api::kNetworkIsolated).status, api::ConditionStatus::kFalse);
  EXPECT_EQ(ConditionOf(host, api::kNetworkIsolated).reason, api::kReasonHostNetwork);
}

TEST(Reconciler, TheLauncherAdmitsTheNodesOfWorkersThatUseTheirNetwork) {
  FakeApi api;
  api.objects[kJobPath]["spec"]["network"] = {{"hostNetwork", true}};
  Operator op(api, kAllowsHostNetwork, {}, kIsolated);
  op.Settle();
  const std::string launcher = std::string(kPoliciesPath) + "/digits-job-uid-launcher";
  ASSERT_EQ(api.objects[launcher]["spec"]["ingress"].size(), 1U);

  const json node = *ParseJson(
      R"({"metadata": {"name": "n1", "uid": "n", "resourceVersion": "1"}, "status": {"addresses": [{"type": "InternalIP", "address": "192.168.0.9"}]}})");
  ASSERT_TRUE(op.nodes.Stage(node, *kube::ReadObjectMeta(node)).ok());
  op.nodes.Swap("1");
  api.objects[std::string(kPodsPath) + "/digits-worker-1"]["spec"]["nodeName"] = "n1";
  op.Settle();

  ASSERT_EQ(api.objects[launcher]["spec"]["ingress"].size(), 2U);
  EXPECT_EQ(api.objects[launcher]["spec"]["ingress"][1]["from"],
            (json::array({{{"ipBlock", {{"cidr", "192.168.0.9/32"}}}}})));
}

TEST(Reconciler, WithoutRightsOnNodesTheLauncherAdmitsTheirWorkersAddresses) {
  FakeApi api;
  api.objects[kJobPath]["spec"]["network"] = {{"hostNetwork", true}};
  Operator op(api, kAllowsHostNetwork, {}, kIsolated);
  op.Settle();
  json& worker = api.objects[std::string(kPodsPath) + "/digits-worker-1"];
  worker["spec"]["nodeName"] = "n1";
  worker["status"]["podIP"] = "192.168.0.9";
  op.Settle();

  const std::string launcher = std::string(kPoliciesPath) + "/digits-job-uid-launcher";
  ASSERT_EQ(api.objects[launcher]["spec"]["ingress"].size(), 2U);
  EXPECT_EQ(api.objects[launcher]["spec"]["ingress"][1]["from"],
            (json::array({{{"ipBlock", {{"cidr", "192.168.0.9/32"}}}}})));
}

TEST(Reconciler, TwoInstallationsNeverActOnOneJob) {
  FakeApi api;
  Operator first(api, "", {.installation = "a/lease"});
  Operator second(api, "", {.installation = "b/lease"});
  first.Settle();
  ASSERT_EQ(api.Count(kPodsPath), 4U);
  EXPECT_EQ(StatusOf(api).installation, "a/lease");
  api.objects.erase(std::string(kPodsPath) + "/digits-worker-1");
  const std::size_t sent = api.http.Sent().size();

  second.Settle();
  EXPECT_EQ(api.http.Sent().size(), sent);

  api.objects.erase(std::string(kServicesPath) + "/digits-launcher");  // the status still says so
  second.Settle();
  EXPECT_EQ(api.http.Sent().size(), sent);

  first.Settle();
  EXPECT_EQ(api.Count(kPodsPath), 4U);
}

TEST(Reconciler, AnInstallationThatRefusesAJobLeavesItToOneThatAcceptsIt) {
  FakeApi api;
  api.objects[kJobPath]["spec"]["network"] = {{"hostNetwork", true}};
  Operator strict(api, "", {.installation = "a/lease"});
  Operator permissive(api, kAllowsHostNetwork, {.installation = "b/lease"});

  strict.Settle();
  EXPECT_FALSE(api.objects[kJobPath].contains("status"));
  permissive.Settle();
  strict.clock.Advance(std::chrono::seconds(2));
  strict.Settle();

  EXPECT_EQ(ConditionOf(api, api::kFailed).reason, "");
  EXPECT_EQ(api.Count(kPodsPath), 4U);
  EXPECT_EQ(StatusOf(api).installation, "b/lease");
}

TEST(Reconciler, AJobThatAllRefuseIsHeldUpByTheFirstToTakeIt) {
  FakeApi api;
  TemplateOf(api) = kEvil;
  Operator first(api, "", {.installation = "a/lease"});
  Operator second(api, "", {.installation = "b/lease"});
  for (Operator* op : {&first, &second}) {
    op->Settle();
    op->clock.Advance(std::chrono::seconds(2));
  }
  second.Settle();
  const std::size_t sent = api.http.Sent().size();
  first.Settle();

  EXPECT_EQ(ConditionOf(api, api::kStalled).reason, api::kReasonInvalidSpec);
  EXPECT_EQ(StatusOf(api).installation, "b/lease");
  EXPECT_EQ(api.http.Sent().size(), sent);
  EXPECT_EQ(api.Count(kPodsPath), 0U);
}

TEST(Reconciler, BeforeARefusalTheApiServerIsAskedWhetherAnotherHasTheJob) {
  FakeApi api;
  api.objects[kJobPath]["spec"]["network"] = {{"hostNetwork", true}};
  Operator strict(api, "", {.installation = "a/lease"});
  strict.Settle();
  strict.clock.Advance(std::chrono::seconds(2));
  strict.Sync();
  (void)strict.reconciler.Reconcile("team-a/digits");
  ASSERT_EQ(StatusOf(api).installation, "a/lease");
  api.objects[std::string(kServicesPath) + "/digits-launcher"] = {
      {"metadata",
       {{"name", "digits-launcher"},
        {"namespace", "team-a"},
        {"uid", "s"},
        {"resourceVersion", "1"},
        {"annotations", {{api::kAnnotationInstallation, "b/lease"}}},
        {"ownerReferences",
         {{{"apiVersion", api::kApiVersion},
           {"kind", api::kKind},
           {"name", "digits"},
           {"uid", "job-uid"},
           {"controller", true}}}}}}};
  strict.Sync();
  strict.services.Swap("1");  // its watch has not shown the Service yet

  (void)strict.reconciler.Reconcile("team-a/digits");

  EXPECT_EQ(ConditionOf(api, api::kFailed).reason, "");
}

TEST(Reconciler, WhoWritesTheStatusOfASuspendedJobHasIt) {
  FakeApi api;
  api.objects[kJobPath]["spec"]["suspend"] = true;
  Operator first(api, "", {.installation = "a/lease"});
  Operator second(api, "", {.installation = "b/lease"});
  first.Settle();
  const std::size_t sent = api.http.Sent().size();

  second.Settle();

  EXPECT_EQ(StatusOf(api).installation, "a/lease");
  EXPECT_EQ(ConditionOf(api, api::kSuspended).status, api::ConditionStatus::kTrue);
  EXPECT_EQ(api.http.Sent().size(), sent);
}

TEST(Reconciler, AnInstallationThatLosesTheRaceForAJobLeavesNoPod) {
  FakeApi api;
  Operator first(api, "", {.installation = "a/lease"});
  Operator second(api, "", {.installation = "b/lease"}, kIsolated);
  second.Sync();  // it has not seen what the first one makes
  first.Settle();
  const std::string launcher = std::string(kPodsPath) + "/digits-launcher-1";
  api.objects.erase(launcher);

  (void)second.reconciler.Reconcile("team-a/digits");

  EXPECT_FALSE(api.objects.contains(launcher));
  EXPECT_EQ(api.Count(kPoliciesPath), 0U);
  EXPECT_EQ(StatusOf(api).installation, "a/lease");
}

TEST(Reconciler, ExcludedNamespacesAreLeftAlone) {
  FakeApi api;
  Operator op(api, "", {.excluded_namespaces = {"team-a"}});

  op.Settle();

  EXPECT_TRUE(api.http.Sent().empty());
}

TEST(Reconciler, ARotatedSeedIsForNewJobsAndRunningOnesKeepTheirs) {
  FakeApi api;
  Operator op(api);
  op.Settle();
  const std::string service = "/digits-launcher";
  const auto seed_of = [&](const std::string& name) {
    return kube::GetString(api.objects[std::string(kServicesPath) + "/" + name + "-launcher"],
                           {"metadata", "annotations", api::kAnnotationSeedId});
  };
  const std::string old = seed_of("digits");
  api.objects[kKeyringPath]["data"]["rotated"] = "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=";
  api.objects[kKeyringPath]["data"]["current"] = "cm90YXRlZA==";
  op.clock.Advance(std::chrono::seconds(61));
  const auto add = [&](const char* name) {
    json job = api.objects[kJobPath];
    job.erase("status");
    job["metadata"]["name"] = name;
    job["metadata"]["uid"] = std::string("uid-of-") + name;
    api.objects[std::string("/apis/ringmaster.dev/v1alpha1/namespaces/team-a/trainingjobs/") +
                name] = job;
    op.Sync();
    (void)op.reconciler.Reconcile(std::string("team-a/") + name);
  };

  add("second");

  EXPECT_EQ(seed_of("second"), "rotated");
  // A worker of the first job that is made anew has the keys of the others.
  const std::string worker = std::string(kPodsPath) + "/digits-worker-1";
  const auto hashes = [&] {
    for (const json& variable : api.objects[worker]["spec"]["containers"][0]["env"]) {
      if (variable["name"] == control::kEnvItemHashes) return variable["value"].get<std::string>();
    }
    return std::string();
  };
  const std::string before = hashes();
  ASSERT_FALSE(before.empty());
  api.objects.erase(worker);
  op.Settle();
  EXPECT_EQ(hashes(), before);
  EXPECT_EQ(seed_of("digits"), old);

  // What cannot be read now costs nobody a job.
  api.objects[kKeyringPath]["data"]["current"] = "bm9uZQ==";
  op.clock.Advance(std::chrono::seconds(61));
  add("third");
  EXPECT_EQ(seed_of("third"), "rotated");
}

TEST(Reconciler, MakesAJobsObjectsAndThenRests) {
  FakeApi api;
  Operator op(api);

  op.Settle();

  EXPECT_EQ(api.Count(kPodsPath), 4u);
  EXPECT_EQ(api.Count(kServicesPath), 2u);
  EXPECT_EQ(api.Count("/api/v1/namespaces/team-a/secrets"), 1u);
  EXPECT_EQ(api.Count(kPinsPath), 1u);
  EXPECT_TRUE(api.objects.contains(std::string(kPodsPath) + "/digits-launcher-1"));
  EXPECT_TRUE(api::IsTrue(StatusOf(api).conditions, api::kCreated));
  EXPECT_EQ(op.events.reasons, std::vector<std::string>{api::kEventCreated});
}

TEST(Reconciler, ASlowApiServerKeepsNoPassForLong) {
  FakeApi api;
  api.objects[kJobPath]["spec"]["worker"]["replicas"] = 40;
  Operator op(api);
  api.http.on_send = [&, serve = api.http.on_send](const http::Request& request) {
    if (request.path.rfind(kPodsPath, 0) == 0) op.clock.Advance(std::chrono::seconds(10));
    return serve(request);
  };
  op.Sync();
  const Clock::Time began = op.clock.Now();

  const auto first = op.reconciler.Reconcile("team-a/digits");

  EXPECT_LE(op.clock.Now() - began, std::chrono::seconds(90));
  EXPECT_GT(api.Count(kPodsPath), 1U);
  ASSERT_TRUE(first.ok());
  EXPECT_LE(first->requeue_after, std::chrono::milliseconds(100)) << "the rest is made soon";
  op.Settle();
  EXPECT_EQ(api.Count(kPodsPath), 41U);
}

TEST(Reconciler, ARequestThatThrowsIsAnErrorOfItsJobAndTriedAgain) {
  FakeApi api;
  Operator op(api);
  int thrown = 0;
  api.http.on_send = [&, serve = api.http.on_send](const http::Request& request) {
    if (request.path.rfind(kPodsPath, 0) == 0 &&
        request.body.find("digits-worker-1") != std::string::npos && thrown++ == 0) {
      throw std::runtime_error("a bug");
    }
    return serve(request);
  };
  op.Sync();

  const auto first = op.reconciler.Reconcile("team-a/digits");

  ASSERT_EQ(thrown, 1);
  ASSERT_FALSE(first.ok()) << "nothing else would bring the job back";
  EXPECT_EQ(first.error().kind, ErrorKind::kInternal);
  EXPECT_NE(first.error().message.find("team-a/digits"), std::string::npos);
  op.Settle();
  EXPECT_EQ(api.Count(kPodsPath), 4U);
}

TEST(Reconciler, FirstStatusHasItsZeros) {
  FakeApi api;
  api.objects[kJobPath]["status"] = {{"observedGeneration", -1}};  // the default of the CRD
  Operator op(api);

  op.Settle();

  EXPECT_EQ(api.objects[kJobPath]["status"]["workers"]["ready"], 0);
}

TEST(Reconciler, ReadsNoSecretButItsKeyring) {
  FakeApi api;
  Operator op(api);

  op.Settle();

  ASSERT_FALSE(api.secret_reads.empty());
  for (const std::string& path : api.secret_reads) {
    EXPECT_EQ(path, "/api/v1/namespaces/ringmaster-system/secrets/ringmaster-keyring");
  }
}

TEST(Reconciler, AKillAfterAnyWriteLeavesNoDuplicate) {
  for (int writes = 0; writes < 13; ++writes) {
    FakeApi api;
    api.writes_left = writes;
    Operator(api).Settle();
    api.writes_left = -1;

    Operator(api).Settle();

    EXPECT_EQ(api.Count(kServicesPath), 2u) << writes;
    EXPECT_EQ(api.Count("/api/v1/namespaces/team-a/secrets"), 1u) << writes;
    EXPECT_EQ(api.Count(kPinsPath), 1u) << writes;
    std::size_t workers = 0;
    std::size_t launchers = 0;
    for (const auto& [path, object] : api.objects) {
      const std::string role = kube::GetString(object, {"metadata", "labels", api::kLabelRole});
      workers += role == api::kRoleWorker ? 1 : 0;
      launchers += role == api::kRoleLauncher ? 1 : 0;
    }
    EXPECT_EQ(workers, 3u) << writes;
    EXPECT_EQ(launchers, 1u) << writes;
    const std::string launcher =
        std::string(kPodsPath) + "/" + api::LauncherPodName("digits", StatusOf(api).launcher_term);
    EXPECT_TRUE(api.objects.contains(launcher)) << writes;
  }
}

TEST(Reconciler, ForeignObjectsAreNeverAdopted) {
  for (const char* name : {"digits", "digits-launcher"}) {
    FakeApi api;
    const std::string path = std::string(kServicesPath) + "/" + name;
    const json foreign{
        {"metadata",
         {{"name", name}, {"namespace", "team-a"}, {"uid", "x"}, {"resourceVersion", "5"}}},
        {"spec", {{"clusterIP", "10.9.9.9"}}}};
    api.objects[path] = foreign;
    Operator op(api);

    op.Settle();

    const auto status = StatusOf(api);
    const api::Condition* ready = api::FindCondition(status.conditions, api::kWorkersReady);
    ASSERT_NE(ready, nullptr);
    EXPECT_EQ(ready->reason, api::kReasonNameConflict);
    EXPECT_EQ(api.objects[path], foreign);
    EXPECT_EQ(api.Count(kPodsPath), 0u);
  }
}

TEST(Reconciler, QuotaRefusalIsToldAndRetriedLater) {
  FakeApi api;
  api.refuse_create[kPodsPath] = {403,
                                  "pods \"x\" is forbidden: exceeded quota: q, requested: pods=1"};
  Operator op(api);

  op.Settle();
  const auto refused = StatusOf(api);
  api.refuse_create.clear();
  op.clock.Advance(std::chrono::seconds(61));
  op.Settle();

  const api::Condition* ready = api::FindCondition(refused.conditions, api::kWorkersReady);
  ASSERT_NE(ready, nullptr);
  EXPECT_EQ(ready->reason, api::kReasonQuotaExceeded);
  EXPECT_EQ(api.Count(kPodsPath), 4u);
  EXPECT_EQ(StatusOf(api).launcher_term, 1);
  EXPECT_NE(api::FindCondition(StatusOf(api).conditions, api::kWorkersReady)->reason,
            api::kReasonQuotaExceeded);
}

TEST(Reconciler, ARefusalIsForgottenWhenWhatWasRefusedIsNotNeededAnyMore) {
  FakeApi api;
  Operator op(api);
  op.Settle();
  api.refuse_create[kPodsPath] = {403, "pods \"x\" is forbidden: exceeded quota: q"};
  api.objects[kJobPath]["spec"]["worker"]["replicas"] = 4;
  op.Settle();
  ASSERT_EQ(ConditionOf(api, api::kWorkersReady).reason, api::kReasonQuotaExceeded);

  api.objects[kJobPath]["spec"]["worker"]["replicas"] = 3;
  op.clock.Advance(std::chrono::seconds(61));
  op.Settle();

  EXPECT_NE(ConditionOf(api, api::kWorkersReady).reason, api::kReasonQuotaExceeded);
}

TEST(Reconciler, ARefusedDeleteIsToldAtOnceAndThenTriedWithABackOff) {
  FakeApi api;
  Operator op(api);
  op.Settle();
  const std::string worker = std::string(kPodsPath) + "/digits-worker-1";
  api.objects[worker]["status"] = {{"phase", "Failed"}, {"reason", "Evicted"}};
  api.refuse_delete = worker;
  std::vector<std::chrono::milliseconds> delays;
  for (int i = 0; i < 3; ++i) {
    op.Sync();
    const auto result = op.reconciler.Reconcile("team-a/digits");
    ASSERT_TRUE(result.ok()) << result.error().message;
    delays.push_back(*result->requeue_after);
  }

  EXPECT_EQ(delays[0], std::chrono::milliseconds(10));
  EXPECT_EQ(ConditionOf(api, api::kWorkersReady).reason, api::kReasonForbidden);
  EXPECT_GE(delays[1], std::chrono::seconds(1));
  EXPECT_GT(delays[2], delays[1]);
}

TEST(Reconciler, AStoreThatStaysBehindIsNotAskedEverSoOften) {
  FakeApi api;
  Operator op(api);
  op.Sync();
  api.objects[kJobPath]["metadata"]["resourceVersion"] = "99";  // and the watch does not say so
  std::chrono::milliseconds delay{0};
  for (int i = 0; i < 12; ++i) {
    const auto result = op.reconciler.Reconcile("team-a/digits");
    ASSERT_TRUE(result.ok()) << result.error().message;
    EXPECT_GE(*result->requeue_after, delay);
    delay = *result->requeue_after;
  }

  EXPECT_GT(delay, std::chrono::seconds(4));
  op.Settle();
  EXPECT_EQ(api.Count(kPodsPath), 4u);
}

TEST(Reconciler, WhatIsRefusedOfAJobThatHasTrainedDoesNotEndIt) {
  FakeApi api;
  Operator op(api);
  op.Settle();
  api.objects[kJobPath]["status"]["epoch"] = 1;
  api.objects.erase(std::string(kPodsPath) + "/digits-worker-1");
  api.refuse_create[kPodsPath] = {400, "admission webhook \"w\" denied the request"};
  op.Settle();
  EXPECT_EQ(ConditionOf(api, api::kFailed).reason, "");
  EXPECT_EQ(ConditionOf(api, api::kWorkersReady).reason, api::kReasonInvalidSpec);

  api.refuse_create.clear();
  op.clock.Advance(std::chrono::seconds(61));
  op.Settle();
  EXPECT_EQ(api.Count(kPodsPath), 4u);
}

TEST(Reconciler, PodsThatCannotBeValidFailTheJob) {
  FakeApi api;
  api.refuse_create[kPodsPath] = {422, "Pod is invalid: spec.containers[0].resources: bad"};
  Operator op(api);

  op.Settle();

  const auto status = StatusOf(api);
  const api::Condition* failed = api::FindCondition(status.conditions, api::kFailed);
  ASSERT_NE(failed, nullptr);
  EXPECT_EQ(failed->reason, api::kReasonInvalidSpec);
  EXPECT_NE(failed->message.find("spec.containers[0].resources"), std::string::npos);
}

TEST(Reconciler, AChangeCountsWhereItWasWrittenAndOnce) {
  FakeApi api;
  api.refuse_create[kPodsPath] = {422, "Pod is invalid"};
  Operator op(api);
  op.Sync();
  (void)op.reconciler.Reconcile("team-a/digits");
  op.Sync();
  api.objects[kJobPath]["metadata"]["resourceVersion"] = "99";  // somebody else was first

  (void)op.reconciler.Reconcile("team-a/digits");
  EXPECT_TRUE(op.ends.reasons.empty());
  op.Settle();
  Operator successor(api);
  successor.Settle();

  EXPECT_EQ(op.ends.reasons, std::vector<std::string>{api::kReasonInvalidSpec});
  EXPECT_TRUE(successor.ends.reasons.empty());
}

TEST(Reconciler, LostKeyringIsToldAndNothingIsMade) {
  FakeApi api;
  Operator(api).Settle();
  api.objects.erase("/api/v1/namespaces/ringmaster-system/secrets/ringmaster-keyring");
  api.objects.erase(std::string(kPodsPath) + "/digits-worker-0");

  Operator(api).Settle();

  const auto status = StatusOf(api);
  EXPECT_EQ(api::FindCondition(status.conditions, api::kWorkersReady)->reason,
            api::kReasonCredentialsUnavailable);
  EXPECT_EQ(api.Count(kPodsPath), 3u);
}

TEST(Reconciler, ADeletedServiceComesBackWithTheKeysOfTheRunningPods) {
  FakeApi api;
  Operator(api).Settle();
  const std::string service = std::string(kServicesPath) + "/digits-launcher";
  const auto seed = [&] {
    return kube::GetString(api.objects[service],
                           {"metadata", "annotations", api::kAnnotationSeedId});
  };
  const std::string first = seed();
  json& keyring = api.objects.at("/api/v1/namespaces/ringmaster-system/secrets/ringmaster-keyring");
  keyring["data"]["s2"] = keyring["data"][first];
  keyring["data"]["current"] = "czI=";  // "s2"
  api.objects.erase(service);

  Operator(api).Settle();

  EXPECT_FALSE(first.empty());
  EXPECT_EQ(seed(), first);
}

TEST(Reconciler, JobsOfAnotherControllerAreLeftAlone) {
  for (const auto& [manager, ours] : std::vector<std::pair<const char*, bool>>{
           {"", true}, {api::kManagedByOperator, true}, {"kueue.x-k8s.io/multikueue", false}}) {
    FakeApi api;
    api.objects[kJobPath]["spec"]["managedBy"] = manager;
    Operator op(api);

    op.Settle();

    EXPECT_EQ(!api.http.Sent().empty(), ours) << manager;
    EXPECT_EQ(!op.events.reasons.empty(), ours) << manager;
  }
}

TEST(Reconciler, AJobCreatedSuspendedMakesNoObject) {
  FakeApi api;
  api.objects[kJobPath]["spec"]["suspend"] = true;
  Operator op(api);

  op.Settle();
  const std::size_t pods = api.Count(kPodsPath) + api.Count(kServicesPath);
  api.objects[kJobPath]["spec"]["suspend"] = false;
  op.Settle();

  EXPECT_EQ(pods, 0u);
  EXPECT_EQ(api.Count(kPodsPath), 4u);
  EXPECT_EQ(op.events.reasons, (std::vector<std::string>{api::kEventSuspended, api::kEventResumed,
                                                         api::kEventCreated}));
}

TEST(Reconciler, AJobIsDeletedWhenItsTimeToLiveIsOver) {
  FakeApi api;
  api.objects[kJobPath]["spec"]["worker"]["template"] = {{"spec", {{"hostNetwork", true}}}};
  api.objects[kJobPath]["spec"]["runPolicy"] = {{"ttlSecondsAfterFailure", 60}};
  Operator op(api);
  op.Settle();
  ASSERT_TRUE(api::IsTerminal(StatusOf(api)));

  op.clock.Advance(std::chrono::seconds(59));
  op.Settle();
  const bool kept = api.objects.contains(kJobPath);
  op.clock.Advance(std::chrono::seconds(1));
  op.Settle();

  EXPECT_TRUE(kept);
  EXPECT_FALSE(api.objects.contains(kJobPath));
}

TEST(Reconciler, WithoutTheRightToDeleteJobsItWaitsWithABackOff) {
  FakeApi api;
  api.objects[kJobPath]["spec"]["worker"]["template"] = {{"spec", {{"hostNetwork", true}}}};
  api.objects[kJobPath]["spec"]["runPolicy"] = {{"ttlSecondsAfterFailure", 0}};
  api.refuse_delete = kJobPath;
  Operator op(api);
  op.Settle();
  op.Sync();

  const auto result = op.reconciler.Reconcile("team-a/digits");

  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().kind, ErrorKind::kForbidden);
}

TEST(Reconciler, JobOfTheSameNameIsANewJob) {
  FakeApi api;
  Operator op(api);
  op.Settle();
  api.objects[kJobPath]["metadata"]["uid"] = "another-uid";
  api.objects[kJobPath]["status"] = nullptr;
  api.objects.erase(std::string(kServicesPath) + "/digits");
  api.objects.erase(std::string(kServicesPath) + "/digits-launcher");

  op.Settle();

  EXPECT_TRUE(api.objects.contains(std::string(kPodsPath) + "/digits-worker-3"));
  EXPECT_TRUE(api.objects.contains(std::string(kPodsPath) + "/digits-launcher-2"));
  EXPECT_EQ(api.Count("/api/v1/namespaces/team-a/secrets"), 2u);
}

TEST(Reconciler, ASuspendedJobIsRemadeFromTheTextsThatItsResumptionBrings) {
  FakeApi api;
  api.objects[kJobPath]["spec"]["command"] = {"ringmaster-train"};
  TemplateOf(api) = kHarmless;
  Operator op(api);
  op.Settle();
  ASSERT_EQ(api.Count(kPodsPath), 4U);
  api.objects[kJobPath]["spec"]["suspend"] = true;
  op.clock.Advance(std::chrono::minutes(3));
  op.Settle();
  op.clock.Advance(std::chrono::minutes(3));
  op.Settle();
  ASSERT_TRUE(api::IsTrue(StatusOf(api).conditions, api::kSuspended));
  EXPECT_EQ(op.jobs.Get("team-a/digits")->spec.worker.template_json, "");
  const std::string said = ConditionOf(api, api::kSuspended).message;

  // A new operator has never seen them.
  Operator next(api);
  next.Settle();
  EXPECT_EQ(next.jobs.Get("team-a/digits")->spec.worker.template_json, "");
  EXPECT_EQ(ConditionOf(api, api::kSuspended).message, said);
  EXPECT_EQ(ConditionOf(api, api::kChangePending).type, "");
  api.objects[kJobPath]["spec"]["suspend"] = false;
  next.Settle();

  ASSERT_EQ(api.Count(kPodsPath), 4U);
  EXPECT_EQ(api.objects[std::string(kPodsPath) + "/digits-worker-0"]["metadata"]["labels"]["a"],
            "b");
}

// Of a job whose checkpoints go with it.
struct HeldJob {
  explicit HeldJob(const char* on_delete = "Delete") {
    api.objects[kJobPath]["spec"]["checkpoint"] = {
        {"volume", {{"persistentVolumeClaim", {{"claimName", "states"}}}}},
        {"onDelete", on_delete}};
  }
  json& Job() { return api.objects[kJobPath]; }
  void DeleteJob() { Job()["metadata"]["deletionTimestamp"] = "2026-11-20T11:00:00Z"; }
  bool Held() {
    const json& finalizers = kube::GetArray(Job(), {"metadata", "finalizers"});
    return std::find(finalizers.begin(), finalizers.end(), json(api::kFinalizer)) !=
           finalizers.end();
  }
  json* Remover() {
    const auto found = api.objects.find(std::string(kPodsPath) + "/digits-clean-up-job-uid");
    return found == api.objects.end() ? nullptr : &found->second;
  }

  FakeApi api;
};

TEST(Reconciler, AJobIsHeldBeforeItsFirstWorkerWhereItsCheckpointsGoWithIt) {
  HeldJob scene;
  scene.Job()["metadata"]["finalizers"] = {"example.com/other"};
  Operator op(scene.api);

  op.Settle();

  ASSERT_TRUE(scene.Held());
  EXPECT_EQ(scene.Job()["metadata"]["finalizers"].size(), 2U);
  EXPECT_EQ(scene.api.Count(kPodsPath), 4U);
  std::size_t held_at = 0, worker_at = 0, at = 0;
  for (const http::Request& request : scene.api.http.Sent()) {
    ++at;
    if (request.body.find(api::kFinalizer) != std::string::npos && held_at == 0) held_at = at;
    if (request.body.find("digits-worker-0") != std::string::npos && worker_at == 0) worker_at = at;
  }
  EXPECT_LT(held_at, worker_at);
}

TEST(Reconciler, AJobThatKeepsItsCheckpointsIsNotHeld) {
  HeldJob scene("Retain");
  Operator op(scene.api);
  op.Settle();
  EXPECT_FALSE(scene.Held());

  scene.Job()["spec"]["checkpoint"]["onDelete"] = "Delete";
  op.Settle();
  EXPECT_TRUE(scene.Held()) << "wanted only while it runs";
  EXPECT_TRUE(ConditionOf(scene.api, api::kChangePending).type.empty());

  scene.Job()["spec"]["checkpoint"]["onDelete"] = "Retain";
  op.Settle();
  EXPECT_FALSE(scene.Held());
}

TEST(Reconciler, ADeletedJobsCheckpointsAreRemovedByAPodOnceItsPodsHaveEnded) {
  HeldJob scene;
  Operator op(scene.api);
  op.Settle();
  ASSERT_EQ(scene.api.Count(kPodsPath), 4U);
  scene.DeleteJob();

  op.Settle();

  ASSERT_NE(scene.Remover(), nullptr);
  EXPECT_EQ(scene.api.Count(kPodsPath), 1U) << "the job's own Pods are gone";
  EXPECT_TRUE(scene.Held());
  EXPECT_EQ(ConditionOf(scene.api, api::kCheckpointsRemoved).status, api::ConditionStatus::kFalse);
  EXPECT_EQ((*scene.Remover())["spec"]["volumes"][0]["persistentVolumeClaim"]["claimName"],
            "states");

  (*scene.Remover())["status"] = {{"phase", "Succeeded"}};
  op.Settle();

  EXPECT_FALSE(scene.Held());
  EXPECT_EQ(scene.Remover(), nullptr);
  EXPECT_EQ(std::ranges::count(op.events.reasons, api::kEventCheckpointsRemoved), 1);
}

TEST(Reconciler, AReleasedJobThatTheStoreStillShowsHeldIsLeftAlone) {
  HeldJob scene;
  Operator op(scene.api);
  op.Settle();
  scene.DeleteJob();
  op.Settle();
  const json held = scene.Job();
  ASSERT_NE(scene.Remover(), nullptr);
  (*scene.Remover())["status"] = {{"phase", "Succeeded"}};
  op.Settle();
  ASSERT_FALSE(scene.Held());
  ASSERT_EQ(scene.Remover(), nullptr);

  scene.Job() = held;
  op.Settle();

  EXPECT_EQ(scene.Remover(), nullptr);
  EXPECT_EQ(std::ranges::count(op.events.reasons, api::kEventCheckpointsRemoved), 1);
}

TEST(Reconciler, APodOfADeletedJobWhoseDeletionThrewIsDeletedLater) {
  HeldJob scene;
  Operator op(scene.api);
  op.Settle();
  scene.DeleteJob();
  op.Sync();
  const auto serve = scene.api.http.on_send;
  scene.api.http.on_send = [&](const http::Request& request) {
    if (request.method == http::Method::kDelete) throw std::length_error("too long");
    return serve(request);
  };

  const auto result = op.reconciler.Reconcile("team-a/digits");

  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().kind, ErrorKind::kInternal);
  EXPECT_NE(result.error().message.find("team-a/digits"), std::string::npos);
  scene.api.http.on_send = serve;
  op.Settle();
  EXPECT_NE(scene.Remover(), nullptr);
}

TEST(Reconciler, AnEndedJobsCheckpointsAreRemovedThoughItsTextsWereNotKept) {
  HeldJob scene;
  Operator(scene.api).Settle();
  json ended = {{"type", "Succeeded"},
                {"status", "True"},
                {"reason", "Completed"},
                {"message", ""},
                {"lastTransitionTime", "2026-11-20T10:30:00Z"}};
  scene.Job()["status"]["conditions"] = json::array({ended});
  Operator op(scene.api);
  op.Settle();
  EXPECT_EQ(op.jobs.Get("team-a/digits")->spec.checkpoint->volume_json, "");
  scene.DeleteJob();

  op.Settle();

  ASSERT_NE(scene.Remover(), nullptr);
  EXPECT_EQ((*scene.Remover())["spec"]["volumes"][0]["persistentVolumeClaim"]["claimName"],
            "states");
}

TEST(Reconciler, TheVolumeOfTheRunCountsWhereAnotherWasAskedForMeanwhile) {
  HeldJob scene;
  Operator op(scene.api);
  op.Settle();
  scene.Job()["spec"]["checkpoint"]["volume"]["persistentVolumeClaim"]["claimName"] = "others";
  op.Settle();
  scene.DeleteJob();

  op.Settle();

  ASSERT_NE(scene.Remover(), nullptr);
  EXPECT_EQ((*scene.Remover())["spec"]["volumes"][0]["persistentVolumeClaim"]["claimName"],
            "states");
}

TEST(Reconciler, ANewOperatorMakesThePodAnewAndBelievesNoOther) {
  HeldJob scene;
  Operator(scene.api).Settle();
  scene.DeleteJob();
  Operator(scene.api).Settle();
  ASSERT_NE(scene.Remover(), nullptr);
  const json first = (*scene.Remover())["metadata"]["uid"];
  (*scene.Remover())["status"] = {{"phase", "Succeeded"}};

  Operator op(scene.api);
  op.Settle();

  ASSERT_NE(scene.Remover(), nullptr);
  EXPECT_NE((*scene.Remover())["metadata"]["uid"], first);
  EXPECT_TRUE(scene.Held());
}

TEST(Reconciler, ANamespaceThatGoesIsNotKeptByACheckpoint) {
  HeldJob scene;
  Operator op(scene.api);
  op.Settle();
  scene.DeleteJob();
  scene.api.refuse_create[kPodsPath] = {
      403, "unable to create new content in namespace team-a because it is being terminated"};

  op.Settle();

  EXPECT_FALSE(scene.Held());
  EXPECT_EQ(std::ranges::count(op.events.reasons, api::kEventCheckpointsLeft), 1);
}

TEST(Reconciler, AStricterProfileKeepsNoDeletedJob) {
  HeldJob scene;
  Operator(scene.api).Settle();
  scene.DeleteJob();

  Operator op(
      scene.api,
      R"({"restricted": {"namespaces": ["*"], "limits": {"imagePrefixes": ["registry.example.com/"]}}})");
  op.Settle();

  EXPECT_EQ(scene.Remover(), nullptr);
  EXPECT_FALSE(scene.Held());
  EXPECT_EQ(std::ranges::count(op.events.reasons, api::kEventCheckpointsLeft), 1);
}

TEST(Reconciler, WithoutTheRightToDeleteAPodADeletedJobIsStillReleasedAtTheLimit) {
  HeldJob scene;
  Operator op(scene.api);
  op.Settle();
  scene.DeleteJob();
  scene.api.refuse_delete = std::string(kPodsPath) + "/digits-worker-0";
  op.Settle();
  ASSERT_TRUE(scene.Held());

  op.clock.Advance(kRemovalLimit);
  op.Settle();

  EXPECT_FALSE(scene.Held());
  EXPECT_EQ(std::ranges::count(op.events.reasons, api::kEventCheckpointsLeft), 1);
}

}  // namespace
}  // namespace ringmaster::job
