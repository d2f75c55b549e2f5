// Tests jobs whose checkpoints are deleted with them (spec.checkpoint.onDelete: Delete): what the
// API server allows the operator to do, and that such a job is always deleted in the end.

#include <gmock/gmock.h>

#include "tests/integration/cluster_test.h"

namespace ringmaster::testing {
namespace {

using ::testing::HasSubstr;

constexpr char kFinalizer[] = "ringmaster.dev/checkpoints";

class RemovalTest : public ClusterTest {
 protected:
  void RunKeeper(const char* on_delete = "Delete") {
    StartOperator();
    StartKubelet();
    json manifest = JobManifest(ns(), "digits", 1);
    manifest["metadata"]["finalizers"] = {"example.com/other"};
    manifest["spec"]["checkpoint"] = {
        {"volume", {{"persistentVolumeClaim", {{"claimName", "states"}}}}},
        {"onDelete", on_delete}};
    CreateJob(manifest);
    WaitCondition("digits", "Running", "True");
  }
  void DeleteJob() { ASSERT_TRUE(admin().Delete(JobPath("digits")).ok()); }
  bool Has(const std::string& finalizer) {
    const json finalizers = At(Job("digits"), "/metadata/finalizers");
    return finalizers.is_array() &&
           std::find(finalizers.begin(), finalizers.end(), json(finalizer)) != finalizers.end();
  }
  void WaitForRelease() {
    WaitFor("the finalizer to go", [&] { return !Has(kFinalizer); });
    EXPECT_TRUE(Has("example.com/other")) << "somebody else's stays";
  }
  std::string Remover() { return "digits-clean-up-" + JobUid("digits").substr(0, 8); }
  void WaitForRemover() {
    WaitFor("the Pod that removes",
            [&] { return TextAt(List("pods")[Remover()], "/status/phase") == "Running"; });
  }
  std::string Told(const std::string& reason) {
    WaitFor("the event " + reason, [&] { return !Events(reason).empty(); });
    const auto events = Events(reason);
    return events.empty() ? "" : TextAt(events[0], "/note");
  }
};

TEST_F(RemovalTest, TheJobStaysUntilAPodHasRemovedItsFolder) {
  RunKeeper();
  ASSERT_TRUE(Has(kFinalizer));

  DeleteJob();
  WaitForRemover();

  EXPECT_EQ(Names("pods"), std::vector<std::string>{Remover()}) << "its own Pods end first";
  EXPECT_TRUE(Has(kFinalizer));
  WaitCondition("digits", "CheckpointsRemoved", "False", "Removing");
  ASSERT_TRUE(kubelet().Terminate(Remover(), 0, "removed 3 files of 15 bytes").ok());
  WaitForRelease();
  EXPECT_THAT(Told("CheckpointsRemoved"),
              HasSubstr(ns() + "/digits/" + JobUid("digits") +
                        " from the checkpoint volume: removed 3 files of 15 bytes"));
  WaitFor("its Pod to go", [&] { return Names("pods").empty(); });
}

TEST_F(RemovalTest, AFailureLetsTheJobGoAndSaysWhatStays) {
  RunKeeper();
  DeleteJob();
  WaitForRemover();
  ASSERT_TRUE(kubelet().Terminate(Remover(), 1, "links are not followed").ok());
  WaitForRelease();
  EXPECT_THAT(Told("CheckpointsLeft"), HasSubstr("links are not followed"));
}

TEST_F(RemovalTest, AJobThatIsToldToRetainIsNeverHeldNorOneThatIsToldSoWhileItGoes) {
  RunKeeper("Retain");
  EXPECT_FALSE(Has(kFinalizer));
  const auto set = [&](const char* on_delete) {
    ASSERT_TRUE(
        admin()
            .MergePatch(JobPath("digits"), {{"spec", {{"checkpoint", {{"onDelete", on_delete}}}}}})
            .ok());
  };
  set("Delete");
  WaitFor("the finalizer", [&] { return Has(kFinalizer); });
  kubelet().SetCutOff(true);
  DeleteJob();
  WaitCondition("digits", "CheckpointsRemoved", "False", "EndingPods");

  set("Retain");

  WaitForRelease();
}

// No namespace controller runs here, so a deleted namespace stays Terminating.
TEST_F(RemovalTest, ANamespaceThatIsDeletedIsNotHeld) {
  RunKeeper();
  ASSERT_TRUE(admin().Delete("/api/v1/namespaces/" + ns()).ok());
  DeleteJob();
  WaitForRelease();
  WaitFor("a line in the log", [&] { return op().LogHas("Left " + ns() + "/digits/"); });
}

TEST_F(RemovalTest, AnUninstalledOperatorHoldsNoJob) {
  RunKeeper();
  ASSERT_EQ(op().Stop(), 0);
  const auto releaser = AnotherOperator("releaser", {"--release-jobs"});
  ASSERT_NE(releaser, nullptr);
  EXPECT_EQ(releaser->process().Wait(std::chrono::seconds(120)), 0) << releaser->Log();
  WaitForRelease();
  WaitCondition("digits", "Managed", "False", "Uninstalled");

  StartOperator();
  WaitFor("the finalizer to come back", [&] { return Has(kFinalizer); });
}

}  // namespace
}  // namespace ringmaster::testing
