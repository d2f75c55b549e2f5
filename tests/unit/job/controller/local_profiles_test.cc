#include "operator/job/controller/local_profiles.h"

#include <map>
#include <memory>
#include <mutex>
#include <set>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "common/json/json.h"
#include "operator/job/controller/local_profiles_plan.h"
#include "operator/kube/json_access.h"
#include "operator/runtime/work_queue.h"
#include "tests/fakes/fake_clock.h"
#include "tests/fakes/fake_http_client.h"

namespace ringmaster::job {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr char kOurs[] = "ringmaster-system/ringmaster-operator";

ProfilePtr MakeProfile(const std::string& name, const char* spec) {
  return std::make_shared<const Profile>(
      ReadProfile({{"metadata", {{"name", name}}}, {"spec", json::parse(spec)}}));
}

std::shared_ptr<const LocalProfileView> Shown(const std::string& name, const std::string& spec,
                                              const std::string& installation = kOurs) {
  return std::make_shared<const LocalProfileView>(LocalProfileView{
      .name = name, .uid = "uid-" + name, .installation = installation, .spec = spec});
}

LocalProfilesPlan PlanFor(const std::vector<ProfilePtr>& profiles, const std::string& ns,
                          const std::vector<std::shared_ptr<const LocalProfileView>>& shown = {}) {
  return PlanLocalProfiles(ProfilesOpenTo(profiles, ns, "ringmaster-system"), shown, kOurs);
}

std::vector<std::string> NamesOf(const std::vector<LocalProfilesPlan::Write>& writes) {
  std::vector<std::string> names;
  for (const auto& write : writes) names.push_back(write.name);
  return names;
}

std::vector<std::string> NamesOf(
    const std::vector<std::shared_ptr<const LocalProfileView>>& objects) {
  std::vector<std::string> names;
  for (const auto& object : objects) names.push_back(object->name);
  return names;
}

TEST(LocalProfilesPlan, ShowsANamespaceItsOwnProfilesWithoutWhoElseHasThem) {
  const auto plan = PlanFor(
      {MakeProfile("all", R"({"namespaces": ["*"], "limits": {"gpus": 8}})"),
       MakeProfile("broken", R"({"namespaces": ["team-a"], "limits": {"gpus": "eight"}})"),
       MakeProfile("both", R"({"namespaces": ["team-a", "team-b"], "default": true,
                               "description": "d", "allows": {"root": true},
                               "workload": {"worker": {"env": [{"name": "A", "value": "1"}]}},
                               "overridable": ["worker.env"]})"),
       MakeProfile("nobodys", "{}"), MakeProfile("theirs", R"({"namespaces": ["team-b"]})")},
      "team-a");

  ASSERT_THAT(NamesOf(plan.writes), ElementsAre("all", "both"));
  EXPECT_EQ(json::parse(plan.writes[0].spec), json::parse(R"({"limits": {"gpus": 8}})"));
  EXPECT_EQ(json::parse(plan.writes[1].spec),
            json::parse(R"({"default": true, "description": "d", "allows": {"root": true},
                            "workload": {"worker": {"env": [{"name": "A", "value": "1"}]}},
                            "overridable": ["worker.env"]})"));
}

TEST(LocalProfilesPlan, SaysDefaultOfTheOneThatHoldsThere) {
  const std::vector<ProfilePtr> profiles = {
      MakeProfile("all", R"({"namespaces": ["*"], "default": true})"),
      MakeProfile("mine", R"({"namespaces": ["team-a"], "default": true})")};

  const LocalProfilesPlan mine = PlanFor(profiles, "team-a");
  const LocalProfilesPlan theirs = PlanFor(profiles, "team-b");

  using Write = LocalProfilesPlan::Write;
  EXPECT_THAT(mine.writes, ElementsAre(Write{"all", "{}"}, Write{"mine", R"({"default":true})"}));
  EXPECT_THAT(theirs.writes, ElementsAre(Write{"all", R"({"default":true})"}));
}

TEST(LocalProfilesPlan, WritesWhatDiffersAndRemovesWhatMayNotBeUsed) {
  const std::vector<ProfilePtr> profiles = {
      MakeProfile("adopted", R"({"namespaces": ["*"]})"),
      MakeProfile("edited", R"({"namespaces": ["*"], "limits": {"gpus": 8}})"),
      MakeProfile("narrowed", R"({"namespaces": ["team-b"]})"),
      MakeProfile("same", R"({"namespaces": ["*"], "limits": {"gpus": 8}})")};

  const LocalProfilesPlan plan =
      PlanFor(profiles, "team-a",
              {Shown("adopted", "{}", ""), Shown("edited", R"({"limits":{"gpus":800}})"),
               Shown("forged", R"({"allows":{"root":true}})", ""), Shown("gone", "{}"),
               Shown("narrowed", "{}"), Shown("same", R"({"limits":{"gpus":8}})")});

  EXPECT_THAT(NamesOf(plan.writes), ElementsAre("adopted", "edited"));
  EXPECT_THAT(NamesOf(plan.removals), ElementsAre("forged", "gone", "narrowed"));
}

TEST(LocalProfilesPlan, ShowsAnEditedProfileOnceItsNewSpecIsJudged) {
  json object = json::parse(R"({
      "metadata": {"name": "edited", "generation": 3},
      "spec": {"namespaces": ["team-a"], "limits": {"gpus": 8}},
      "status": {"conditions": [{"type": "Accepted", "status": "False", "reason": "PodsRefused",
                                 "message": "m", "observedGeneration": 2}]}})");
  const auto plan = [&](const std::vector<std::shared_ptr<const LocalProfileView>>& shown) {
    return PlanFor({std::make_shared<const Profile>(ReadProfile(object))}, "team-a", shown);
  };
  json& accepted = object["status"]["conditions"][0];

  EXPECT_THAT(plan({}).writes, IsEmpty());
  accepted["status"] = "True";
  accepted["reason"] = "Accepted";
  EXPECT_THAT(plan({}).writes, IsEmpty());
  const LocalProfilesPlan before = plan({Shown("edited", "{}")});
  EXPECT_THAT(before.writes, IsEmpty());
  EXPECT_THAT(before.removals, IsEmpty()) << "the spec that was accepted stays until the verdict";

  accepted["observedGeneration"] = 3;
  EXPECT_THAT(NamesOf(plan({}).writes), ElementsAre("edited"));
  EXPECT_THAT(NamesOf(plan({Shown("edited", "{}")}).writes), ElementsAre("edited"));
}

TEST(LocalProfilesPlan, LeavesThoseOfAnotherInstallationAlone) {
  const LocalProfilesPlan plan =
      PlanFor({MakeProfile("same-name", R"({"namespaces": ["*"], "limits": {"gpus": 8}})")},
              "team-a", {Shown("same-name", "{}", "other/op"), Shown("theirs", "{}", "other/op")});

  EXPECT_THAT(plan.writes, IsEmpty());
  EXPECT_THAT(plan.removals, IsEmpty());
}

// The keeper of LocalTrainingProfiles with its controller and an in-memory API server. Its watches
// deliver changes at once.
class LocalProfilesTest : public ::testing::Test {
 protected:
  LocalProfilesTest() {
    http_.on_send = [this](const http::Request& request) { return Serve(request); };
    existing_.OnChange(
        [this](const kube::ObjectMeta& meta, runtime::Change) { queue_.Add(meta.ns); });
    for (const char* ns : {"team-a", "team-b"}) PutNamespace(ns, false);
  }

  void PutNamespace(const std::string& name, bool deleting) {
    json object = {{"metadata", {{"name", name}, {"resourceVersion", "1"}}}};
    if (deleting) object["metadata"]["deletionTimestamp"] = "2026-11-20T10:00:00Z";
    ASSERT_TRUE(namespaces_.Apply(object, *kube::ReadObjectMeta(object)).ok());
  }
  void PutProfile(const std::string& name, json spec) {
    const json object = {{"metadata", {{"name", name}, {"namespace", "ringmaster-system"}}},
                         {"spec", std::move(spec)}};
    ASSERT_TRUE(profiles_.Apply(object, *kube::ReadObjectMeta(object)).ok());
  }
  void Settle() {
    for (const char* ns : {"team-a", "team-b"}) queue_.Add(ns);
    while (controller_.ProcessOne()) {
    }
  }
  std::set<std::string> Objects() const {
    std::set<std::string> found;
    for (const auto& [key, object] : objects_) found.insert(key);
    return found;
  }

  Result<http::Response> Serve(const http::Request& request) {
    const std::string path = request.path.substr(0, request.path.find('?'));
    const std::string from = path.substr(path.find("/namespaces/") + sizeof "/namespaces/" - 1);
    const std::string ns = from.substr(0, from.find('/'));
    const std::string key = ns + path.substr(path.rfind('/'));
    if (refusing_.contains(ns)) {
      return http::Response{403, {}, R"({"kind": "Status", "reason": "Forbidden", "code": 403})"};
    }
    json object{};
    if (request.method == http::Method::kDelete) {
      if (objects_.erase(key) == 0) return http::Response{404, {}, "{}"};
    } else {
      object = *ParseJson(request.body);
    }
    object["metadata"]["namespace"] = ns;
    object["metadata"]["name"] = path.substr(path.rfind('/') + 1);
    object["metadata"]["uid"] = "uid";
    object["metadata"]["resourceVersion"] = std::to_string(++version_);
    const kube::ObjectMeta meta = *kube::ReadObjectMeta(object);
    if (request.method == http::Method::kDelete) {
      existing_.Delete(meta);
    } else {
      objects_[key] = object;
      EXPECT_TRUE(existing_.Apply(object, meta).ok());
    }
    return http::Response{200, {}, object.dump()};
  }

  FakeClock clock_;
  http::FakeHttpClient http_;
  kube::KubeClient client_{http_, nullptr};
  std::map<std::string, json> objects_;  // by "namespace/name"
  std::set<std::string> refusing_;       // namespaces
  int version_ = 1;
  runtime::WorkQueue queue_{clock_};
  runtime::FreshnessGate freshness_{clock_};
  ProfileStore profiles_{ReadProfile};
  LocalProfileStore existing_{ProjectLocalProfile};
  NamespaceStore namespaces_{ProjectNamespace};
  LocalProfiles keeper_{{.client = client_,
                         .freshness = freshness_,
                         .profiles = {.stored = profiles_,
                                      .presets = *ReadPresets(R"({"gpu": {"namespaces": ["*"]}})"),
                                      .operator_ns = "ringmaster-system"},
                         .existing = existing_,
                         .namespaces = &namespaces_,
                         .scope = {.installation = kOurs, .excluded_namespaces = {"kube-system"}}}};
  runtime::Controller controller_{clock_, queue_, freshness_, [this](const std::string& key) {
                                    return keeper_.Reconcile(key);
                                  }};
};

TEST_F(LocalProfilesTest, FollowsProfilesAndNamespaces) {
  existing_.Swap("1");
  PutProfile("vision", {{"namespaces", {"team-a", "team-b"}}, {"limits", {{"gpus", 8}}}});
  Settle();
  EXPECT_THAT(Objects(), ElementsAre("team-a/gpu", "team-a/vision", "team-b/gpu", "team-b/vision"));
  EXPECT_THAT(objects_["team-a/vision"].dump(), Not(HasSubstr("team-b")));

  PutProfile("vision", {{"namespaces", {"team-b"}}, {"limits", {{"gpus", 16}}}});
  Settle();
  EXPECT_THAT(Objects(), ElementsAre("team-a/gpu", "team-b/gpu", "team-b/vision"));
  EXPECT_EQ(objects_["team-b/vision"]["spec"], json::parse(R"({"limits": {"gpus": 16}})"));

  const std::size_t sent = http_.Sent().size();
  Settle();
  EXPECT_EQ(http_.Sent().size(), sent) << "nothing has changed";
}

TEST_F(LocalProfilesTest, RestoresWhatOtherClientsChangedCreatedOrDeleted) {
  existing_.Swap("1");
  Settle();
  const json right = objects_["team-a/gpu"]["spec"];
  const auto edit = [&](const std::string& key, json spec) {
    json object = {{"metadata",
                    {{"namespace", "team-a"},
                     {"name", key.substr(key.find('/') + 1)},
                     {"uid", "uid"},
                     {"annotations", {{"ringmaster.dev/installation", kOurs}}}}},
                   {"spec", std::move(spec)}};
    objects_[key] = object;
    ASSERT_TRUE(existing_.Apply(object, *kube::ReadObjectMeta(object)).ok());
  };

  edit("team-a/gpu", {{"limits", {{"gpus", 1000}}}});
  edit("team-a/forged", {{"allows", {{"root", true}}}});
  existing_.Delete(*kube::ReadObjectMeta(objects_.extract("team-b/gpu").mapped()));
  Settle();

  EXPECT_THAT(Objects(), ElementsAre("team-a/gpu", "team-b/gpu"));
  EXPECT_EQ(objects_["team-a/gpu"]["spec"], right);
}

TEST_F(LocalProfilesTest, WritesNothingBeforeItKnowsWhatIsThere) {
  Settle();
  EXPECT_THAT(http_.Sent(), IsEmpty());

  existing_.Swap("1");
  Settle();
  EXPECT_THAT(Objects(), ElementsAre("team-a/gpu", "team-b/gpu"));
}

TEST_F(LocalProfilesTest, LeavesNamespacesAloneThatGoAreGoneOrNotItsOwn) {
  existing_.Swap("1");
  PutNamespace("team-a", true);
  PutNamespace("kube-system", false);
  queue_.Add("kube-system");
  queue_.Add("gone");
  Settle();

  EXPECT_THAT(Objects(), ElementsAre("team-b/gpu"));
}

TEST_F(LocalProfilesTest, ANamespaceThatRefusesIsTriedAgainAndHoldsUpNoOther) {
  existing_.Swap("1");
  refusing_ = {"team-a"};
  Settle();
  EXPECT_THAT(Objects(), ElementsAre("team-b/gpu"));
  EXPECT_EQ(queue_.Failures("team-a"), 1);

  refusing_.clear();
  clock_.Advance(std::chrono::minutes(5));
  while (controller_.ProcessOne()) {
  }
  EXPECT_THAT(Objects(), ElementsAre("team-a/gpu", "team-b/gpu"));
}

}  // namespace
}  // namespace ringmaster::job
