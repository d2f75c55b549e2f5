// Tests the operator's permissions: it reads no Secret except its keyring, never uses Secrets that
// others or earlier jobs created, and names the verb and resource of a missing permission.

#include <algorithm>
#include <set>
#include <sstream>

#include <gmock/gmock.h>

#include "tests/integration/cluster_test.h"

namespace ringmaster::testing {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr char kRbac[] = "/apis/rbac.authorization.k8s.io/v1";

class RightsTest : public ClusterTest {
 protected:
  // Creates a ServiceAccount with the operator's roles, without the rule at index `left_out` of all
  // rules (first those of the ClusterRole, then those of the Role).
  void MakeAccount(const std::string& account, std::size_t left_out) {
    const std::string in_ns = std::string("/namespaces/") + kOperatorNamespace;
    ASSERT_EQ(admin()
                  .Post("/api/v1" + in_ns + "/serviceaccounts", {{"metadata", {{"name", account}}}})
                  .status,
              201);
    const json subject = {
        {"kind", "ServiceAccount"}, {"name", account}, {"namespace", kOperatorNamespace}};
    std::size_t index = 0;
    for (const char* kind : {"ClusterRole", "Role"}) {
      const std::string scope = std::string(kind) == "Role" ? in_ns : "";
      const std::string plural = std::string(kind) == "Role" ? "/roles" : "/clusterroles";
      json rules = json::array();
      for (const json& rule : Rules(kind)) {
        if (index++ != left_out) rules.push_back(rule);
      }
      ASSERT_EQ(
          admin()
              .Post(kRbac + scope + plural, {{"metadata", {{"name", account}}}, {"rules", rules}})
              .status,
          201);
      ASSERT_EQ(
          admin()
              .Post(kRbac + scope + (scope.empty() ? "/clusterrolebindings" : "/rolebindings"),
                    {{"metadata", {{"name", account}}},
                     {"subjects", json::array({subject})},
                     {"roleRef",
                      {{"apiGroup", "rbac.authorization.k8s.io"},
                       {"kind", kind},
                       {"name", account}}}})
              .status,
          201);
    }
  }

  // Returns whether a part of the log names all verbs of the rule and its resource, as in "list,
  // watch pods in all namespaces;".
  static bool Named(const json& rule, const std::string& log) {
    std::string resource = TextAt(rule, "/resources/0");
    const std::string group = TextAt(rule, "/apiGroups/0");
    if (!group.empty()) resource.insert(std::min(resource.find('/'), resource.size()), "." + group);
    std::istringstream parts(log);
    for (std::string part; std::getline(parts, part, ';');) {
      bool all = part.find(" " + resource + " ") != std::string::npos;
      for (const json& verb : rule.at("verbs")) {
        all = all && part.find(verb.get<std::string>()) != std::string::npos;
      }
      if (all) return true;
    }
    return false;
  }

  json Rules(const std::string& kind) {
    const std::string path = kind == "Role"
                                 ? std::string("/namespaces/") + kOperatorNamespace + "/roles/"
                                 : "/clusterroles/";
    return At(admin().Get(kRbac + path + kOperatorAccount).body, "/rules");
  }
};

TEST_F(RightsTest, ReadsNoSecretButItsKeyring) {
  StartOperator();
  RunJob("digits", 2);
  ASSERT_TRUE(admin().Delete(Path("pods", "digits-worker-0")).ok());
  WaitFor("the next world", [&] { return TextAt(Job("digits"), "/status/epoch") == "2"; });
  int keyring_reads = 0;
  for (const ProxiedRequest& request : proxy().Requests()) {
    if (request.Path().find("/secrets") == std::string::npos) continue;
    const bool keyring =
        request.Path() == "/api/v1/namespaces/ringmaster-system/secrets/ringmaster-keyring";
    EXPECT_TRUE(request.method == "POST" || (request.method == "GET" && keyring))
        << request.method << " " << request.target;
    keyring_reads += keyring ? 1 : 0;
  }
  EXPECT_GE(keyring_reads, 1);
}

TEST_F(RightsTest, WatchesPodsAndServicesByItsLabelBesideJobsAndNodes) {
  StartOperator();
  RunJob("digits", 1);

  std::set<std::string> watched;
  WaitFor("each watch to begin", [&] {
    for (const ProxiedRequest& request : proxy().Requests()) {
      const std::string path = request.Path();
      if (request.IsWatch()) watched.insert(path.substr(path.rfind('/') + 1));
    }
    return watched.size() >= 7;
  });
  EXPECT_THAT(watched,
              ::testing::ElementsAre("localtrainingprofiles", "namespaces", "nodes", "pods",
                                     "services", "trainingjobs", "trainingprofiles"));
  for (const ProxiedRequest& request : proxy().Requests()) {
    const std::string path = request.Path();
    if (!request.IsWatch() || !(path.ends_with("/pods") || path.ends_with("/services"))) continue;
    EXPECT_THAT(request.target,
                HasSubstr("labelSelector=ringmaster.dev%2Fmanaged-by%3Dringmaster"));
  }
}

TEST_F(RightsTest, ItsRolesGrantNoWildcardAndNoSecretRead) {
  for (const char* kind : {"ClusterRole", "Role"}) {
    ASSERT_FALSE(Rules(kind).empty());
    for (const json& rule : Rules(kind)) {
      EXPECT_THAT(rule.dump(), ::testing::Not(HasSubstr("\"*\""))) << rule;
      if (rule.dump().find("\"secrets\"") == std::string::npos) continue;
      const json only_keyring = json::array({"ringmaster-keyring"});
      EXPECT_TRUE(rule.at("verbs") == json::array({"create"}) ||
                  At(rule, "/resourceNames") == only_keyring)
          << rule;
    }
  }
  const std::string as =
      std::string("--as=system:serviceaccount:") + kOperatorNamespace + ":" + kOperatorAccount;
  for (const char* verb : {"get", "list", "watch", "patch", "update", "delete"}) {
    EXPECT_THAT(plane().Kubectl({"auth", "can-i", verb, "secrets", "-n", ns(), as}).text,
                StartsWith("no"))
        << verb;
  }
}

TEST_F(RightsTest, NeitherAPlantedNorAPredecessorsSecretIsUsed) {
  ASSERT_EQ(admin().Post(Path("secrets"), {{"metadata", {{"name", "digits-ssh"}}}}).status, 201);
  StartOperator();
  RunJob("digits", 1);
  const std::string first = PodSecret(List("pods")["digits-worker-0"]);
  EXPECT_THAT(first, ::testing::MatchesRegex("digits-ssh-[0-9a-f]{10}"));
  const json predecessor = List("secrets")[first];
  // Delete the job and create it again under the same name. The first job's Secret stays, as if
  // another user had created it for the second job.
  ASSERT_TRUE(admin().Delete(JobPath("digits")).ok());
  // If the operator first saw a Pod's deletion, it would create a Pod that nothing here deletes.
  WaitFor("the operator to know", [&] {
    const std::string metrics = op().Metrics();  // labels name the namespaces with jobs
    return metrics.find("\nringmaster_jobs{") != std::string::npos &&
           metrics.find("job_namespace=\"" + ns() + "\"") == std::string::npos;
  });
  for (const std::string& pod : Names("pods")) ASSERT_TRUE(admin().Delete(Path("pods", pod)).ok());
  for (const std::string& service : Names("services"))
    ASSERT_TRUE(admin().Delete(Path("services", service)).ok());
  WaitFor("the first job's Pods to go", [&] { return Names("pods").empty(); });
  RunJob("digits", 1);
  for (const auto& [name, pod] : List("pods")) {
    EXPECT_NE(PodSecret(pod), first) << name;
    EXPECT_NE(PodSecret(pod), "digits-ssh") << name;
  }
  const json secret = List("secrets")[PodSecret(List("pods").begin()->second)];
  for (const char* item : {"tls.key", "ssh-user-key", "agent-token", "operator-token"}) {
    EXPECT_NE(At(secret, "/data").at(item), At(predecessor, "/data").at(item)) << item;
  }
}

TEST_F(RightsTest, ADeletedSecretIsMadeAgainBeforeTheNextPods) {
  StartOperator();
  RunJob("digits", 1);
  const json before = List("secrets").begin()->second;
  ASSERT_TRUE(admin().Delete(Path("secrets", TextAt(before, "/metadata/name"))).ok());
  ASSERT_TRUE(admin().Delete(Path("pods", "digits-worker-0")).ok());
  WaitFor("the replacement", [&] { return TextAt(Job("digits"), "/status/epoch") == "2"; });
  ASSERT_EQ(List("secrets").size(), 1u);
  EXPECT_EQ(At(List("secrets").begin()->second, "/data"), At(before, "/data"))
      << "the same keys, derived again";
}

TEST_F(RightsTest, EachMissingRuleIsSaidAndLeavesItAliveAndUnready) {
  const std::size_t of_cluster = Rules("ClusterRole").size();
  const std::size_t count = of_cluster + Rules("Role").size();
  for (std::size_t index = 0; index < count; ++index) {
    const json rule =
        index < of_cluster ? Rules("ClusterRole").at(index) : Rules("Role").at(index - of_cluster);
    const std::string account = "without-rule-" + std::to_string(index);
    ASSERT_NO_FATAL_FAILURE(MakeAccount(account, index));
    ASSERT_NO_FATAL_FAILURE(LaunchOperator(kPatientLease, account, true));
    WaitFor("a line that names what is missing of " + rule.dump(),
            [&] { return Named(rule, op().Log()); });
    const std::string resource = TextAt(rule, "/resources/0");
    const bool lists_events = resource == "events" && rule.at("verbs") == json::array({"list"});
    const bool for_people = resource == "localtrainingprofiles" || resource == "namespaces" ||
                            resource == "trainingprofiles/status";
    if (resource == "nodes" || lists_events || for_people || resource.ends_with("reviews")) {
      EXPECT_TRUE(op().WaitReady()) << "it can do without " << rule;
    } else {
      EXPECT_NE(op().Probe("/readyz"), 200) << rule;
    }
    EXPECT_TRUE(op().process().Running()) << rule;
    if (HasFailure()) return;
  }
}

TEST_F(RightsTest, ComesAliveWhenTheRightIsGranted) {
  const std::string account = "granted-later";
  ASSERT_NO_FATAL_FAILURE(MakeAccount(account, 0));
  ASSERT_NO_FATAL_FAILURE(LaunchOperator(kPatientLease, account));
  WaitFor("the complaint", [&] { return op().LogHas("trainingjobs"); });
  EXPECT_NE(op().Probe("/readyz"), 200);
  ASSERT_TRUE(admin()
                  .MergePatch(std::string(kRbac) + "/clusterroles/" + account,
                              {{"rules", Rules("ClusterRole")}})
                  .ok());
  EXPECT_TRUE(op().WaitReady(std::chrono::seconds(180)));
}

}  // namespace
}  // namespace ringmaster::testing
