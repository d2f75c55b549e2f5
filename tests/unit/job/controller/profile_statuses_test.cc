#include "operator/job/controller/profile_statuses.h"

#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "common/json/json.h"
#include "operator/job/controller/observe.h"
#include "operator/kube/json_access.h"
#include "tests/fakes/fake_clock.h"
#include "tests/fakes/fake_http_client.h"

namespace ringmaster::job {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

// Profiles on an in-memory API server. The store shows changes at once, unless a test delays them.
class ProfileStatusesTest : public ::testing::Test {
 protected:
  ProfileStatusesTest() {
    http_.on_send = [this](const http::Request& request) { return Serve(request); };
  }

  void Put(const std::string& name, json spec) {
    json& object = objects_[name];
    const int64_t generation =
        object.is_null() ? 1 : object["metadata"]["generation"].get<int64_t>() + 1;
    object["metadata"] = {
        {"namespace", "ringmaster-system"}, {"name", name}, {"generation", generation}};
    object["spec"] = std::move(spec);
    Show(name);
  }
  void Show(const std::string& name) {
    json& object = objects_[name];
    object["metadata"]["resourceVersion"] = std::to_string(++version_);
    ASSERT_TRUE(store_.Apply(object, *kube::ReadObjectMeta(object)).ok());
  }
  void LookAt(ProfileStatuses& statuses, const std::string& name) {
    EXPECT_TRUE(statuses.Reconcile("ringmaster-system/" + name).ok());
  }
  const json& Accepted(const std::string& name) {
    const json& conditions = objects_[name]["status"]["conditions"];
    EXPECT_THAT(conditions, SizeIs(1));
    return conditions.at(0);
  }
  std::string Reason(const std::string& name) {
    return Accepted(name)["reason"].get<std::string>();
  }
  std::string Message(const std::string& name) {
    return Accepted(name)["message"].get<std::string>();
  }

  Result<http::Response> Serve(const http::Request& request) {
    const std::string path = request.path.substr(0, request.path.find('?'));
    if (path == "/api/v1/namespaces/trials/pods") {
      EXPECT_THAT(request.path, HasSubstr("dryRun=All"));
      tried_.push_back(*ParseJson(request.body));
      return on_try_(tried_.back());
    }
    const std::string before =
        "/apis/ringmaster.dev/v1alpha1/namespaces/ringmaster-system"
        "/trainingprofiles/";
    EXPECT_TRUE(path.starts_with(before) && path.ends_with("/status")) << path;
    const std::string name =
        path.substr(before.size(), path.size() - before.size() - sizeof "/status" + 1);
    if (!objects_.contains(name)) {
      return http::Response{404, {}, R"({"kind": "Status", "reason": "NotFound", "code": 404})"};
    }
    objects_[name].merge_patch(*ParseJson(request.body));
    if (shows_) Show(name);
    return http::Response{200, {}, objects_[name].dump()};
  }

  FakeClock clock_;
  http::FakeHttpClient http_;
  kube::KubeClient client_{http_, nullptr};
  std::map<std::string, json> objects_;
  std::vector<json> tried_;  // Pods of dry runs
  std::function<http::Response(const json& pod)> on_try_ = [](const json&) {
    return http::Response{201, {}, "{}"};
  };
  bool shows_ = true;
  int version_ = 0;
  ProfileStore store_{ReadProfile};
  NamespaceStore namespaces_{ProjectNamespace};
  ProfileStatusesParts parts_{.clock = clock_,
                              .client = client_,
                              .profiles = {.stored = store_, .operator_ns = "ringmaster-system"},
                              .namespaces = &namespaces_,
                              .trial_ns = "trials"};
  ProfileStatuses statuses_{parts_};
};

TEST_F(ProfileStatusesTest, SaysOfEachProfileWhetherJobsCanUseIt) {
  Put("fine", {{"namespaces", {"team-a"}}});
  Put("beyond", json::parse(R"({"namespaces": ["team-a"],
                                "workload": {"network": {"hostNetwork": true}}})"));
  Put("unreadable", {{"namespaces", {"team-a"}}, {"limits", {{"gpus", "eight"}}}});
  for (const char* name : {"fine", "beyond", "unreadable"}) LookAt(statuses_, name);

  EXPECT_EQ(Accepted("fine")["status"], "True");
  EXPECT_EQ(Reason("fine"), "Accepted");
  EXPECT_EQ(objects_["fine"]["status"]["observedGeneration"], 1);
  EXPECT_EQ(Accepted("beyond")["status"], "False");
  EXPECT_EQ(Reason("beyond"), "NotCovered");
  EXPECT_THAT(Accepted("beyond")["message"].get<std::string>(),
              HasSubstr("spec.workload.network.hostNetwork"));
  EXPECT_EQ(Reason("unreadable"), "Unreadable");
  EXPECT_THAT(Accepted("unreadable")["message"].get<std::string>(), HasSubstr("limits.gpus"));
}

TEST_F(ProfileStatusesTest, TwoDefaultsOfOneNamespaceInOneRankSaySoUntilOneIsLeft) {
  Put("all", {{"namespaces", {"*"}}, {"default", true}});
  Put("one", {{"namespaces", {"team-b", "team-a"}}, {"default", true}});
  Put("other", {{"namespaces", {"team-a"}}, {"default", true}});
  for (const char* name : {"all", "one", "other"}) LookAt(statuses_, name);
  EXPECT_EQ(Reason("all"), "Accepted");
  for (const char* name : {"one", "other"}) {
    EXPECT_EQ(Accepted(name)["status"], "False");
    EXPECT_EQ(Reason(name), "DefaultConflict");
    EXPECT_THAT(Accepted(name)["message"].get<std::string>(),
                AllOf(HasSubstr("team-a"), HasSubstr("(one, other)")));
  }
  const std::string since = Accepted("one")["lastTransitionTime"].get<std::string>();

  clock_.Advance(std::chrono::minutes(1));
  Put("other", {{"namespaces", {"team-a"}}});
  LookAt(statuses_, "one");
  EXPECT_EQ(Reason("one"), "Accepted");
  EXPECT_NE(Accepted("one")["lastTransitionTime"], since);
}

TEST_F(ProfileStatusesTest, WritesWhatIsNewOnce) {
  Put("fine", {{"namespaces", {"team-a"}}});
  LookAt(statuses_, "fine");
  const std::string since = Accepted("fine")["lastTransitionTime"].get<std::string>();
  LookAt(statuses_, "fine");
  EXPECT_THAT(http_.Sent(), SizeIs(1));

  ProfileStatuses next_leaders(parts_);
  LookAt(next_leaders, "fine");
  EXPECT_THAT(http_.Sent(), SizeIs(1)) << "it stands there";

  clock_.Advance(std::chrono::minutes(1));
  Put("fine", {{"namespaces", {"team-b"}}});
  LookAt(statuses_, "fine");
  EXPECT_THAT(http_.Sent(), SizeIs(2));
  EXPECT_EQ(Accepted("fine")["observedGeneration"], 2);
  EXPECT_EQ(Accepted("fine")["lastTransitionTime"], since) << "it was True before";
}

TEST_F(ProfileStatusesTest, DoesNotWriteOverAnotherWhoDisagreesForEver) {
  Put("fine", {{"namespaces", {"team-a"}}});
  LookAt(statuses_, "fine");

  objects_["fine"]["status"]["conditions"][0]["reason"] = "AnotherOpinion";
  Show("fine");
  LookAt(statuses_, "fine");

  EXPECT_THAT(http_.Sent(), SizeIs(1));
}

TEST_F(ProfileStatusesTest, KnowsWhatItWroteBeforeTheWatchShowsIt) {
  Put("one", {{"namespaces", {"*"}}, {"default", true}});
  LookAt(statuses_, "one");
  shows_ = false;
  Put("other", {{"namespaces", {"*"}}, {"default", true}});
  LookAt(statuses_, "one");
  EXPECT_EQ(Reason("one"), "DefaultConflict");
  store_.Delete(*kube::ReadObjectMeta(objects_["other"]));
  LookAt(statuses_, "one");

  EXPECT_EQ(Reason("one"), "Accepted");
}

http::Response StatusOf(int code, const std::string& message) {
  return {code, {}, json{{"kind", "Status"}, {"message", message}, {"code", code}}.dump()};
}

json WithTemplate(const char* spec) {
  return {{"namespaces", {"*"}},
          {"workload", {{"worker", {{"template", {{"spec", json::parse(spec)}}}}}}}};
}

TEST_F(ProfileStatusesTest, SaysWhichFieldOfATemplateTheServerRefuses) {
  on_try_ = [](const json& pod) {
    return pod["metadata"]["name"] == "trial-worker-0"
               ? StatusOf(
                     400,
                     "Pod in version \"v1\" cannot be handled as a Pod: strict decoding error: "
                     "unknown field \"spec.nodeSelektor\"")
               : http::Response{201, {}, "{}"};
  };
  Put("typo", WithTemplate(R"({"nodeSelektor": {"a": "b"}})"));
  LookAt(statuses_, "typo");

  EXPECT_EQ(Accepted("typo")["status"], "False");
  EXPECT_EQ(Reason("typo"), "PodsRefused");
  EXPECT_EQ(Message("typo"),
            "no job can use it: the API server rejects its Pods: "
            "unknown field \"spec.workload.worker.template.spec.nodeSelektor\"");
  EXPECT_THAT(WhyNoRunBegins(*store_.Get("ringmaster-system/typo")),
              AllOf(HasSubstr("\"typo\" cannot be used, because the API server rejects its Pods"),
                    HasSubstr("nodeSelektor")));
  const std::size_t tries = tried_.size();
  LookAt(statuses_, "typo");
  EXPECT_EQ(tried_.size(), tries) << "once for each spec";

  on_try_ = [](const json&) { return http::Response{201, {}, "{}"}; };
  Put("typo", WithTemplate(R"({"nodeSelector": {"a": "b"}})"));
  EXPECT_EQ(WhyNoRunBegins(*store_.Get("ringmaster-system/typo")), "") << "said of another spec";
  LookAt(statuses_, "typo");
  EXPECT_EQ(Reason("typo"), "Accepted");
}

TEST_F(ProfileStatusesTest, APriorityClassThatDoesNotExistHidesNoOtherMistake) {
  bool exists = false;
  on_try_ = [&](const json& pod) {
    if (!exists && pod["spec"].contains("priorityClassName")) {
      return StatusOf(403,
                      "pods \"trial-worker-0\" is forbidden: no PriorityClass with name soon was "
                      "found");
    }
    if (pod["spec"].contains("dnsPolicy")) {
      return StatusOf(422,
                      "Pod \"trial-worker-0\" is invalid: spec.dnsPolicy: Unsupported value: "
                      "\"Never\"");
    }
    return http::Response{201, {}, "{}"};
  };
  json spec = WithTemplate(R"({"dnsPolicy": "Never", "preemptionPolicy": "Never"})");
  spec["workload"]["priorityClassName"] = "soon";
  Put("classed", spec);
  LookAt(statuses_, "classed");
  EXPECT_EQ(Reason("classed"), "PodsRefused");
  EXPECT_THAT(Message("classed"),
              AllOf(HasSubstr("spec.workload.worker.template.spec.dnsPolicy: Unsupported"),
                    HasSubstr("; its PriorityClass \"soon\" does not exist")));
  EXPECT_FALSE(tried_.back()["spec"].contains("preemptionPolicy")) << "a class goes with it";

  spec["workload"]["worker"].erase("template");
  Put("classed", spec);
  const auto looked = statuses_.Reconcile("ringmaster-system/classed");
  EXPECT_EQ(Reason("classed"), "Accepted") << "it may come later";
  EXPECT_THAT(Message("classed"), HasSubstr("\"soon\" does not exist"));
  ASSERT_TRUE(looked.ok());
  EXPECT_TRUE(looked->requeue_after.has_value());

  exists = true;
  LookAt(statuses_, "classed");
  EXPECT_EQ(Message("classed"), "jobs in its namespaces may use it");
}

TEST_F(ProfileStatusesTest, TriesWhatJobsCompleteAsIfTheyHad) {
  json spec = WithTemplate(R"({
      "serviceAccountName": "of-the-team",
      "containers": [{"name": "worker", "resources": {"limits": {"hugepages-2Mi": "1Gi"},
                                                      "claims": [{"name": "nic"}]},
                      "volumeMounts": [{"name": "data", "mountPath": "/data"}]},
                     {"name": "side"}]})");
  spec["allows"] = {{"serviceAccounts", {"of-the-team"}}, {"resourceClaims", true}};
  spec["limits"] = {{"imagePrefixes", {"registry.example.com/"}}};
  Put("parts", spec);
  LookAt(statuses_, "parts");

  EXPECT_EQ(Reason("parts"), "Accepted") << Message("parts");
  ASSERT_THAT(tried_, SizeIs(2));
  const json& pod = tried_[0]["spec"];
  EXPECT_FALSE(pod.contains("serviceAccountName"));
  EXPECT_EQ(pod["containers"][1]["image"], "image");
  EXPECT_EQ(pod["containers"][0]["resources"]["requests"]["memory"], "1");
  EXPECT_EQ(pod["resourceClaims"][0]["name"], "nic");
  EXPECT_THAT(pod["volumes"].dump(), HasSubstr("\"data\""));
}

TEST_F(ProfileStatusesTest, ARefusalThatIsNotAboutThePodDoesNotJudgeTheProfile) {
  for (const http::Response& answer :
       {StatusOf(403, "pods \"trial-worker-0\" is forbidden: exceeded quota: q"),
        StatusOf(422, "pods \"trial-worker-0\" is forbidden: ValidatingAdmissionPolicy 'p' denied"),
        StatusOf(400, "admission webhook \"w\" does not support dry run"),
        http::Response{409, {}, R"({"kind": "Status", "reason": "AlreadyExists"})"}}) {
    on_try_ = [&](const json&) { return answer; };
    Put("fine", WithTemplate(R"({"nodeSelector": {"a": "b"}})"));
    ProfileStatuses statuses(parts_);
    LookAt(statuses, "fine");
    EXPECT_EQ(Reason("fine"), "Accepted") << answer.body;
  }

  on_try_ = [](const json&) { return StatusOf(500, "busy"); };
  Put("fine", WithTemplate(R"({"nodeSelector": {"c": "d"}})"));
  EXPECT_FALSE(statuses_.Reconcile("ringmaster-system/fine").ok()) << "to be tried again";
  EXPECT_EQ(Accepted("fine")["observedGeneration"], 4);
}

TEST_F(ProfileStatusesTest, SaysWhichOfItsNamespacesDoNotExistOnceThatIsKnown) {
  json names{{"namespaces", {"team-a", "team-b"}}};
  Put("named", names);
  Put("all", {{"namespaces", {"*"}}});
  LookAt(statuses_, "named");
  EXPECT_EQ(Message("named"), "jobs in its namespaces may use it");

  namespaces_.Swap("1");
  json team_a{{"metadata", {{"name", "team-a"}, {"resourceVersion", "2"}}}};
  ASSERT_TRUE(namespaces_.Apply(team_a, *kube::ReadObjectMeta(team_a)).ok());
  LookAt(statuses_, "named");
  LookAt(statuses_, "all");
  EXPECT_EQ(Accepted("named")["status"], "True");
  EXPECT_EQ(Message("named"),
            "jobs in its namespaces may use it; it lists namespaces that do not exist (team-b)");
  EXPECT_EQ(Message("all"), "jobs in its namespaces may use it");

  for (int i = 0; i < 20; ++i) names["namespaces"].push_back("x" + std::to_string(i));
  Put("named", names);
  LookAt(statuses_, "named");
  EXPECT_THAT(Message("named"),
              HasSubstr("(team-b, x0, x1, x2, x3, x4, x5, x6, x7, x8, and 11 more)"));
}

TEST_F(ProfileStatusesTest, SaysWhoseOfThemItTakesThePresetOfItsName) {
  parts_.profiles.presets = *ReadPresets(
      R"({"gpu": {"namespaces": ["*"]}, "net": {"namespaces": ["team-a", "team-b"]}})");
  ProfileStatuses statuses(parts_);
  const auto message_of = [&](const char* name, json namespaces) {
    Put(name, {{"namespaces", std::move(namespaces)}});
    LookAt(statuses, name);
    EXPECT_EQ(Accepted(name)["status"], "True");
    return Message(name);
  };
  EXPECT_THAT(message_of("gpu", {"team-a"}),
              HasSubstr("; it replaces the preset of the same name, so jobs in all other "
                        "namespaces can no longer use it"));
  EXPECT_THAT(message_of("net", {"team-a"}), HasSubstr("jobs in other namespaces (team-b) can"));
  EXPECT_THAT(message_of("net", {"team-a", "team-b"}), Not(HasSubstr("preset")));
  EXPECT_THAT(message_of("gpu", {"*"}), Not(HasSubstr("preset")));
  EXPECT_THAT(message_of("other", {"team-a"}), Not(HasSubstr("preset")));
}

TEST_F(ProfileStatusesTest, OneThatIsGoneNeedsNone) {
  Put("gone", {{"namespaces", {"team-a"}}});
  objects_.clear();
  LookAt(statuses_, "gone");
  LookAt(statuses_, "never-there");
  EXPECT_THAT(http_.Sent(), SizeIs(1));

  Put("gone", {{"namespaces", {"team-a"}}});
  LookAt(statuses_, "gone");
  EXPECT_EQ(Reason("gone"), "Accepted");
}

}  // namespace
}  // namespace ringmaster::job
