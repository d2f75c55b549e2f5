#include "operator/job/controller/profile_statuses.h"

#include <map>
#include <string>

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
using ::testing::SizeIs;

// Profiles on an API server in memory, which the store shows at once unless it is told not to.
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

  Result<http::Response> Serve(const http::Request& request) {
    const std::string path = request.path.substr(0, request.path.find('?'));
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
  bool shows_ = true;
  int version_ = 0;
  ProfileStore store_{ReadProfile};
  ProfileSource source_{.stored = store_, .operator_ns = "ringmaster-system"};
  ProfileStatuses statuses_{clock_, client_, source_};
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

  ProfileStatuses next_leaders(clock_, client_, source_);
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
