// Tests a running job of four workers while its operator is upgraded and rolled back. The other
// version is simulated: unknown fields are added to the messages between operator and launcher, or
// all optional fields are removed.

#include <gmock/gmock.h>

#include "operator/api/names.h"
#include "tests/fakes/other_version.h"
#include "tests/integration/cluster_test.h"

namespace ringmaster::testing {
namespace {

class VersionsTest : public ClusterTest {
 protected:
  // Returns the UIDs of all Pods by name.
  std::map<std::string, std::string> Pods() {
    std::map<std::string, std::string> pods;
    for (const auto& [name, pod] : List("pods")) pods[name] = TextAt(pod, "/metadata/uid");
    return pods;
  }

  static std::string OlderOrder(const std::string& text) {
    return AsOlder(text, [](const std::string& t) { return control::DecodeOrder(t).ok(); });
  }
  static std::string OlderStatus(const std::string& text) {
    return AsOlder(text,
                   [](const std::string& t) { return control::DecodeLauncherStatus(t).ok(); });
  }
};

TEST_F(VersionsTest, ARunningJobIsNotDisturbedByAnUpgradeAndARollBack) {
  StartOperator();
  RunJob("digits", 4);
  const auto launcher = kubelet().Launcher("digits-launcher-1");
  ASSERT_NE(launcher, nullptr);
  const auto pods = Pods();
  const control::Epoch epoch = launcher->Status().epoch;
  const std::string running_since = TextAt(Condition("digits", "Running"), "/lastTransitionTime");

  struct Version {
    const char* what;
    FakeLauncher::AsAnotherVersion of_operator;
    FakeLauncher::AsAnotherVersion of_launcher;
  };
  const Version versions[] = {{"upgraded", AsNewer, AsNewer},
                              {"rolled back", OlderOrder, OlderStatus},
                              {"upgraded again", AsNewer, OlderStatus},
                              {"as it was", nullptr, nullptr}};
  for (const Version& version : versions) {
    op().Kill();
    const auto last = launcher->LastOrder();
    ASSERT_TRUE(last.has_value());
    launcher->SetVersions(version.of_operator, version.of_launcher);
    StartOperator();
    WaitFor(std::string("an order of the operator that is ") + version.what,
            [&] { return launcher->LastOrder()->stamp.leader_term > last->stamp.leader_term; });
    const int calls = launcher->Calls();
    WaitFor("the operator to keep polling", [&] { return launcher->Calls() >= calls + 3; });

    EXPECT_EQ(launcher->LastOrder()->workers.size(), 4U) << version.what;
    EXPECT_EQ(Pods(), pods) << version.what;
    EXPECT_EQ(TextAt(Condition("digits", "Running"), "/lastTransitionTime"), running_since)
        << version.what;
    EXPECT_EQ(launcher->Status().epoch, epoch) << version.what;
  }

  FinishJob("digits", Success(4));
  WaitCondition("digits", "Succeeded", "True");
}

}  // namespace
}  // namespace ringmaster::testing
