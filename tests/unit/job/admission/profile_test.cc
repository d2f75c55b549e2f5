#include "operator/job/admission/profile.h"

#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "operator/job/admission/judgement.h"

namespace ringmaster::job {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

constexpr char kOperatorNs[] = "ringmaster-system";

ProfilePtr Make(const char* name, const char* spec) {
  return std::make_shared<const Profile>(ReadProfile(
      {{"metadata", {{"name", name}, {"namespace", kOperatorNs}}}, {"spec", json::parse(spec)}}));
}

std::string NameOf(const Choice& choice) {
  return choice.profile == nullptr ? "" : choice.profile->name;
}

TEST(Profile, AllowsAndLimitsNothingUntilItSaysSo) {
  const ProfilePtr empty = Make("empty", "{}");

  EXPECT_EQ(empty->rules, JobRules{.profile = "empty"});
  EXPECT_FALSE(empty->rules.Grants());
  EXPECT_TRUE(empty->namespaces.empty() && !empty->is_default);
  EXPECT_EQ(empty->workload.text, "");
  EXPECT_EQ(empty->problem, "");
}

TEST(Profile, SaysWhatItAllowsAndLimits) {
  const JobRules rules = Make("all", R"({
    "allows": {"hostNetwork": true, "privileged": true, "root": true, "resourceClaims": true,
               "serviceAccounts": ["trainer"], "capabilities": ["IPC_LOCK"], "devices": ["rdma/hca"],
               "schedulers": ["volcano"], "hostPaths": ["/data"]},
    "limits": {"workers": 4, "gpus": 16, "devices": {"rdma/hca": 8}, "imagePrefixes": ["example.com/"], "priorityClasses": ["low"],
               "runtimeClasses": ["nvidia"]}})")
                             ->rules;

  using Texts = std::vector<std::string>;
  EXPECT_EQ(rules, (JobRules{.profile = "all",
                             .host_network = true,
                             .privileged = true,
                             .root = true,
                             .resource_claims = true,
                             .service_accounts = {"trainer"},
                             .capabilities = {"IPC_LOCK"},
                             .devices = {"rdma/hca"},
                             .schedulers = {"volcano"},
                             .host_paths = {"/data"},
                             .image_prefixes = Texts{"example.com/"},
                             .priority_classes = Texts{"low"},
                             .runtime_classes = Texts{"nvidia"},
                             .max_workers = 4,
                             .max_gpus = 16,
                             .max_devices = {{"rdma/hca", 8}}}));
  EXPECT_TRUE(rules.Grants());
}

TEST(Profile, HoldsForTheNamespacesThatItNamesAlone) {
  const std::vector<ProfilePtr> profiles = {Make("none", R"({"default": true})"),
                                            Make("one", R"({"namespaces": ["team-a"]})"),
                                            Make("all", R"({"namespaces": ["*"]})")};
  const auto choose = [&](const char* ns, const char* wanted) {
    return ChooseProfile(profiles, ns, wanted, kOperatorNs);
  };

  EXPECT_EQ(NameOf(choose("team-a", "one")), "one");
  EXPECT_EQ(NameOf(choose("team-b", "all")), "all");
  EXPECT_EQ(NameOf(choose("team-a", "")), kRestricted) << "none of them is its default";
  EXPECT_EQ(NameOf(choose("team-a", "none")), "");
  EXPECT_EQ(NameOf(choose("*", "one")), "");
}

TEST(Profile, OneOfOtherNamespacesLooksLikeOneThatDoesNotExist) {
  const std::vector<ProfilePtr> profiles = {Make("theirs", R"({"namespaces": ["team-b"]})")};

  const std::string forbidden = ChooseProfile(profiles, "team-a", "theirs", kOperatorNs).problem;
  const std::string unknown = ChooseProfile({}, "team-a", "theirs", kOperatorNs).problem;

  EXPECT_THAT(forbidden, HasSubstr("theirs"));
  EXPECT_EQ(forbidden, unknown);
}

TEST(Profile, ADefaultThatNamesTheNamespaceComesBeforeOneForAllAndTwoOfOneRankAreNone) {
  const ProfilePtr all = Make("all", R"({"namespaces": ["*"], "default": true})");
  const ProfilePtr own = Make("own", R"({"namespaces": ["team-a"], "default": true})");
  const ProfilePtr other =
      Make("other", R"({"namespaces": ["team-b", "team-a"], "default": true})");

  EXPECT_EQ(NameOf(ChooseProfile({all, own}, "team-a", "", kOperatorNs)), "own");
  EXPECT_EQ(NameOf(ChooseProfile({own, all}, "team-b", "", kOperatorNs)), "all");
  const Choice two = ChooseProfile({own, all, other}, "team-a", "", kOperatorNs);
  EXPECT_EQ(NameOf(two), "");
  EXPECT_THAT(two.problem, HasSubstr("(own, other)"));
  EXPECT_EQ(NameOf(ChooseProfile({own, all, other}, "team-a", "own", kOperatorNs)), "own");
  EXPECT_EQ(NameOf(ChooseProfile({own, all, other}, "team-b", "", kOperatorNs)), "other");
}

TEST(Profile, WithoutADefaultAJobIsRestrictedWhichAProfileMayReplace) {
  const ProfilePtr own = Make("own", R"({"namespaces": ["team-a"], "default": true})");
  const ProfilePtr narrow =
      Make("restricted", R"({"namespaces": ["team-a"], "limits": {"workers": 1}})");

  const Choice built_in = ChooseProfile({own}, "team-b", "", kOperatorNs);
  EXPECT_EQ(RulesOf(built_in, "team-b"), (JobRules{.ns = "team-b", .profile = "restricted"}));
  EXPECT_EQ(NameOf(ChooseProfile({own}, "team-b", "restricted", kOperatorNs)), "restricted");
  EXPECT_EQ(NameOf(ChooseProfile({own}, "team-a", "", kOperatorNs)), "own");
  EXPECT_EQ(ChooseProfile({narrow}, "team-a", "", kOperatorNs).profile, narrow);
  EXPECT_EQ(ChooseProfile({narrow, own}, "team-a", "restricted", kOperatorNs).profile, narrow);
  EXPECT_EQ(ChooseProfile({narrow}, "team-b", "", kOperatorNs), built_in);
}

TEST(Profile, NoJobShedsTheLimitsOfItsNamespacesDefaultByNamingRestricted) {
  for (const char* namespaces : {R"("team-a")", R"("*")"}) {
    const std::string spec =
        std::string(R"({"default": true, "limits": {"gpus": 8}, "namespaces": [)") + namespaces +
        "]}";

    const Choice choice =
        ChooseProfile({Make("own", spec.c_str())}, "team-a", "restricted", kOperatorNs);

    EXPECT_EQ(NameOf(choice), "") << namespaces;
    EXPECT_THAT(choice.problem, HasSubstr("\"restricted\""));
  }
}

TEST(Profile, NoJobShedsTheLimitsOfItsNamespacesDefaultByNamingOneWithout) {
  const ProfilePtr limits = Make("all", R"({"namespaces": ["*"], "default": true, "limits":
      {"gpus": 32, "workers": 8, "imagePrefixes": ["a"], "devices": {"rdma/hca": 4}}})");
  const ProfilePtr gpu = Make("gpu", R"({"namespaces": ["*"], "limits":
      {"gpus": 64, "devices": {"a/b": 1}}})");

  const JobRules rules = RulesOf(ChooseProfile({gpu, limits}, "team-a", "gpu", kOperatorNs), "");

  EXPECT_EQ(rules.profile, "gpu");
  EXPECT_EQ(rules.max_gpus, 64) << "its own";
  EXPECT_EQ(rules.max_workers, 8);
  EXPECT_EQ(rules.image_prefixes, (std::vector<std::string>{"a"}));
  EXPECT_EQ(rules.max_devices, (std::map<std::string, int>{{"a/b", 1}, {"rdma/hca", 4}}));

  const ProfilePtr unread = Make("all", R"({"namespaces": ["*"], "default": true, "limits": 1})");
  EXPECT_EQ(NameOf(ChooseProfile({gpu, unread}, "team-a", "gpu", kOperatorNs)), "");
}

TEST(Profile, TheDefaultOfAllNamespacesLimitsTheOnesWithADefaultOfTheirOwnToo) {
  const ProfilePtr all = Make(
      "all", R"({"namespaces": ["*"], "default": true, "limits": {"gpus": 32, "workers": 8}})");
  const ProfilePtr own =
      Make("own", R"({"namespaces": ["team-a"], "default": true, "limits": {"gpus": 64}})");
  const ProfilePtr named = Make("named", R"({"namespaces": ["team-a"]})");

  for (const char* wanted : {"", "named"}) {
    const Choice choice = ChooseProfile({all, named, own}, "team-a", wanted, kOperatorNs);
    const JobRules rules = RulesOf(choice, "");

    EXPECT_EQ(rules.profile, *wanted == '\0' ? "own" : "named");
    EXPECT_EQ(rules.max_gpus, 64) << "the namespace's, " << wanted;
    EXPECT_EQ(rules.max_workers, 8) << wanted;
  }
  const ProfilePtr unread = Make("all", R"({"namespaces": ["*"], "default": true, "limits": 1})");
  EXPECT_EQ(NameOf(ChooseProfile({unread, own}, "team-a", "", kOperatorNs)), "");
}

TEST(Profile, OneThatCannotBeReadHoldsUpTheJobsThatItMayBeFor) {
  const ProfilePtr limits =
      Make("p", R"({"namespaces": ["team-a"], "default": true, "limits": {"gpus": "eight"}})");
  const ProfilePtr reach = Make("p", R"({"namespaces": "team-a", "limits": {"gpus": 8}})");
  const ProfilePtr not_default =
      Make("p", R"({"namespaces": ["team-a"], "workload": {"worker": 7}})");
  const auto problem = [](const ProfilePtr& profile, const char* ns, const char* wanted) {
    return ChooseProfile({profile}, ns, wanted, kOperatorNs).problem;
  };

  EXPECT_THAT(problem(limits, "team-a", ""), HasSubstr("cannot be decoded: "));
  EXPECT_THAT(problem(limits, "team-a", "p"), HasSubstr("limits.gpus"));
  EXPECT_EQ(problem(limits, "team-b", ""), "");
  EXPECT_THAT(problem(reach, "team-b", ""), HasSubstr("cannot be decoded: "));
  EXPECT_THAT(problem(not_default, "team-a", "p"), HasSubstr("cannot be decoded: "));
  EXPECT_EQ(problem(not_default, "team-a", ""), "");
}

TEST(Profile, ARefusalNamesTheProfilesThatTheJobMayName) {
  const std::vector<ProfilePtr> profiles = {
      Make("a", R"({"namespaces": ["team-a"]})"), Make("b", R"({"namespaces": ["*"]})"),
      Make("c", R"({"namespaces": ["team-b"]})"),
      Make("d", R"({"namespaces": ["*"], "workload": {"network": {"hostNetwork": true}}})")};
  api::TrainingJob job;
  job.spec.host_network = true;

  const Choice choice = ChooseProfile(profiles, "team-a", "", kOperatorNs);
  const std::string refused = Judge(job, RulesOf(choice, "team-a")).violations.at(0).message;

  EXPECT_THAT(refused,
              HasSubstr("does not allow it in spec.allows.hostNetwork; in spec.profile, "
                        "name another profile of this namespace (a, b) that allows it, or ask"));
  const Choice named = ChooseProfile(profiles, "team-a", "a", kOperatorNs);
  EXPECT_THAT(Judge(job, RulesOf(named, "team-a")).violations.at(0).message,
              HasSubstr("another profile of this namespace (b) that"));
  EXPECT_THAT(ChooseProfile(profiles, "team-a", "e", kOperatorNs).problem,
              HasSubstr("name another one (a, b)"));
  EXPECT_THAT(ChooseProfile({}, "team-a", "e", kOperatorNs).problem,
              HasSubstr("name another one, or"));
}

TEST(Profile, WhatItSetsHasToBeWhatItAllows) {
  const struct {
    const char* workload;
    const char* allows;
    const char* path;
  } table[] = {
      {R"({"network": {"hostNetwork": true}})", R"({"hostNetwork": true})",
       "spec.workload.network.hostNetwork"},
      {R"({"worker": {"privileged": true}})", R"({"privileged": true, "root": true})",
       "spec.workload.worker.privileged"},
      {R"({"worker": {"rdma": {"rdma/hca": 1}}})", R"({"devices": ["rdma/hca"]})",
       "spec.workload.worker.rdma[rdma/hca]"},
      {R"({"worker": {"template": {"spec": {"schedulerName": "volcano"}}}})",
       R"({"schedulers": ["volcano"]})", "spec.workload.worker.template.spec.schedulerName"},
      {R"({"worker": {"volumes": [{"name": "d", "hostPath": {"path": "/data/a"}}]}})",
       R"({"hostPaths": ["/data"]})", "spec.workload.worker.volumes[0].hostPath"},
      {R"({"launcher": {"template": {"spec": {"serviceAccountName": "trainer"}}}})",
       R"({"serviceAccounts": ["trainer"]})",
       "spec.workload.launcher.template.spec.serviceAccountName"},
  };
  for (const auto& row : table) {
    const std::string workload =
        std::string(R"({"namespaces": ["*"], "workload": )") + row.workload;
    const std::string allows = std::string(R"(, "allows": )") + row.allows;

    const Choice bare = ChooseProfile({Make("p", (workload + "}").c_str())}, "a", "p", kOperatorNs);
    EXPECT_EQ(NameOf(bare), "");
    EXPECT_THAT(bare.problem, HasSubstr(row.path));
    const ProfilePtr covered = Make("p", (workload + allows + "}").c_str());
    EXPECT_EQ(NameOf(ChooseProfile({covered}, "a", "p", kOperatorNs)), "p") << covered->problem;
  }
  EXPECT_EQ(
      Make("p", R"({"workload": {"worker": {"template": {"spec": {"hostPID": true}}}}})")->problem,
      "spec.workload.worker.template.spec.hostPID is rejected, because it gives the Pod rights "
      "beyond Pod Security \"restricted\"; remove it")
      << "no profile can allow it";
}

TEST(Profile, NoneGrantsAnythingInTheOperatorsOwnNamespace) {
  const std::vector<ProfilePtr> profiles = {
      Make("grants", R"({"namespaces": ["*"], "allows": {"root": true}})"),
      Make("sets", R"({"namespaces": ["*"], "workload": {"priorityClassName": "low"}})")};

  const Choice refused = ChooseProfile(profiles, kOperatorNs, "grants", kOperatorNs);
  EXPECT_EQ(NameOf(refused), "");
  EXPECT_THAT(refused.problem, HasSubstr("operator's namespace"));
  EXPECT_EQ(NameOf(ChooseProfile(profiles, kOperatorNs, "sets", kOperatorNs)), "sets");
  EXPECT_EQ(NameOf(ChooseProfile(profiles, "team-a", "grants", kOperatorNs)), "grants");
}

TEST(Profile, AJobOfNoneGetsNoPod) {
  api::TrainingJob job;
  const JobRules rules = RulesOf({.profile = nullptr, .problem = "there is none"}, "team-a");

  const Judgement judgement = Judge(job, rules);

  EXPECT_FALSE(judgement.allowed);
  ASSERT_EQ(judgement.violations.size(), 1U);
  EXPECT_EQ(judgement.violations[0].Text(),
            "spec.profile does not select a usable profile: there is none");
}

TEST(Profile, PresetsAreProfilesByNameAndAMistakeInOneIsNamed) {
  const auto presets =
      ReadPresets(R"({"a": {"namespaces": ["*"], "limits": {"workers": 2}}, "b": {}})");
  ASSERT_TRUE(presets.ok());
  EXPECT_EQ(presets->size(), 2U);
  EXPECT_EQ(presets->at("a")->rules.max_workers, 2);
  EXPECT_TRUE(ReadPresets("")->empty());
  for (const char* wrong :
       {"[]", "a: {}", R"({"a": {"namespaces": "team-a"}})",
        R"({"a": {"allows": {"root": "yes"}}})", R"({"a": {"limits": {"workers": "4"}}})",
        R"({"a": {"workload": {"worker": 7}}})",
        R"({"a": {"workload": {"network": {"hostNetwork": true}}}})"}) {
    EXPECT_FALSE(ReadPresets(wrong).ok()) << wrong;
  }
}

TEST(HostPath, IsBelowAPrefixByWholePartsAlone) {
  EXPECT_TRUE(IsBelowHostPath("/data", "/data"));
  EXPECT_TRUE(IsBelowHostPath("/data/a", "/data/"));
  EXPECT_TRUE(IsBelowHostPath("//data/./a/", "/data"));
  EXPECT_TRUE(IsBelowHostPath("/data", "/"));
  EXPECT_FALSE(IsBelowHostPath("/database", "/data"));
  EXPECT_FALSE(IsBelowHostPath("/data/../etc", "/data"));
  EXPECT_FALSE(IsBelowHostPath("/data/a/..", "/data"));
  EXPECT_FALSE(IsBelowHostPath("data", "/data"));
  EXPECT_FALSE(IsBelowHostPath("", "/"));
  EXPECT_FALSE(IsBelowHostPath("/data", ""));
}

TEST(Profile, AcceptedHasAReason) {
  const auto accepted = [](const ProfilePtr& profile, const std::vector<ProfilePtr>& others = {}) {
    std::vector<ProfilePtr> profiles = others;
    profiles.push_back(profile);
    const api::Condition condition = JudgeProfile(*profile, profiles);
    return (condition.status == api::ConditionStatus::kTrue ? "True " : "False ") +
           condition.reason + ": " + condition.message;
  };
  const ProfilePtr own = Make("own", R"({"namespaces": ["team-a"], "default": true})");
  const ProfilePtr all = Make("all", R"({"namespaces": ["*"], "default": true})");

  EXPECT_EQ(accepted(own, {all}), "True Accepted: jobs in its namespaces may use it");
  EXPECT_EQ(accepted(Make("p", R"({"namespaces": ["team-a"]})"), {own, all}),
            "True Accepted: jobs in its namespaces may use it");
  EXPECT_EQ(accepted(Make("none", "{}")),
            "True Accepted: it lists no namespaces, so no job may use it");
  EXPECT_THAT(accepted(Make("p", R"({"limits": 7})")),
              ::testing::StartsWith("False Unreadable: no job can use it: it cannot be "));
  EXPECT_THAT(
      accepted(Make("p", R"({"workload": {"network": {"hostNetwork": true}}})")),
      ::testing::StartsWith("False NotCovered: no job can use it: its workload sets a field "));
  EXPECT_THAT(
      accepted(Make("p", R"({"namespaces": ["team-b", "team-a"], "default": true})"), {own, all}),
      ::testing::StartsWith("False DefaultConflict: namespace team-a has several default "
                            "TrainingProfiles (own, p)"));
  EXPECT_THAT(accepted(Make("p", R"({"namespaces": ["*"], "default": true})"), {own, all}),
              ::testing::StartsWith("False DefaultConflict: all namespaces have several default "
                                    "TrainingProfiles (all, p)"));
}

TEST(Profile, WhatItsStatusSaysIsReadWithIt) {
  json object = json::parse(R"({"metadata": {"name": "p", "generation": 7}, "spec": {},
      "status": {"conditions": [
        {"type": "Other", "status": "True"},
        {"type": "Accepted", "status": "False", "reason": "NotCovered", "message": "m",
         "lastTransitionTime": "2026-11-20T10:00:00Z", "observedGeneration": 6}]}})");

  const Profile profile = ReadProfile(object);

  EXPECT_EQ(profile.generation, 7);
  ASSERT_TRUE(profile.accepted.has_value());
  EXPECT_EQ(*profile.accepted, (api::Condition{.type = "Accepted",
                                               .status = api::ConditionStatus::kFalse,
                                               .reason = "NotCovered",
                                               .message = "m",
                                               .last_transition_time = "2026-11-20T10:00:00Z",
                                               .observed_generation = 6}));

  json& accepted = object["status"]["conditions"][1];
  accepted["status"] = "True";
  accepted.erase("observedGeneration");
  const Profile other = ReadProfile(object);
  EXPECT_EQ(other.accepted->status, api::ConditionStatus::kTrue);
  EXPECT_EQ(other.accepted->observed_generation, 0);
  object.erase("status");
  EXPECT_FALSE(ReadProfile(object).accepted.has_value());
}

TEST(Profile, ThoseThatANamespaceMayNameAreShownThereWithItsDefault) {
  const std::vector<ProfilePtr> profiles = {
      Make("all", R"({"namespaces": ["*"], "default": true})"),
      Make("own", R"({"namespaces": ["team-a"], "default": true})"),
      Make("gpu", R"({"namespaces": ["team-a"]})"), Make("theirs", R"({"namespaces": ["team-b"]})"),
      Make("broken", R"({"namespaces": ["*"], "limits": 7})")};
  std::vector<std::string> open;
  for (const OpenProfile& one : ProfilesOpenTo(profiles, "team-a", kOperatorNs)) {
    open.push_back(one.profile->name + (one.is_default ? " (default)" : ""));
  }

  EXPECT_EQ(open, (std::vector<std::string>{"all", "own (default)", "gpu"}));
}

TEST(Profile, OneWhosePodsTheServerRefusesIsNotOfferedUntilItsSpecIsAnother) {
  json object = json::parse(R"({
      "metadata": {"name": "refused", "generation": 2}, "spec": {"namespaces": ["*"]},
      "status": {"conditions": [{"type": "Accepted", "status": "False", "reason": "PodsRefused",
                                 "message": "m", "observedGeneration": 2}]}})");
  const auto offered = [&] {
    return ChooseProfile({Make("fine", R"({"namespaces": ["*"]})"),
                          std::make_shared<const Profile>(ReadProfile(object))},
                         "team-a", "typo", kOperatorNs);
  };
  EXPECT_EQ(offered().open, (std::vector<std::string>{"fine"}));
  EXPECT_THAT(offered().problem, HasSubstr("name another one (fine), or ask"));

  object["metadata"]["generation"] = 3;
  EXPECT_EQ(offered().open, (std::vector<std::string>{"fine", "refused"}));
}

TEST(Profile, OfSeveralDefaultsNoneIsShownAsOne) {
  const std::vector<ProfilePtr> profiles = {
      Make("one", R"({"namespaces": ["team-a"], "default": true})"),
      Make("other", R"({"namespaces": ["team-a"], "default": true})")};
  const std::vector<OpenProfile> open = ProfilesOpenTo(profiles, "team-a", kOperatorNs);

  ASSERT_EQ(open.size(), 2U);
  EXPECT_FALSE(open[0].is_default || open[1].is_default);
}

TEST(Profile, EachItemThatAllowsSomethingGrantsRightsByItself) {
  for (const char* item :
       {R"("hostNetwork": true)", R"("privileged": true)", R"("root": true)",
        R"("resourceClaims": true)", R"("serviceAccounts": ["a"])", R"("capabilities": ["a"])",
        R"("devices": ["a/b"])", R"("schedulers": ["a"])", R"("hostPaths": ["/a"])"}) {
    const std::string spec = std::string(R"({"allows": {)") + item + "}}";
    EXPECT_TRUE(Make("p", spec.c_str())->rules.Grants()) << item;
  }
}

}  // namespace
}  // namespace ringmaster::job
