// Kills the operator with SIGKILL at every distinct write during a job: once before the write
// arrives, and once after it was stored but before the operator has its answer. The result of the
// job must be the same as without kills.

#include <algorithm>
#include <chrono>
#include <map>
#include <mutex>
#include <set>
#include <utility>

#include "tests/integration/cluster_test.h"

namespace ringmaster::testing {
namespace {

// Returns a fingerprint of a write: the object and, for a status, the content. Writes with the same
// fingerprint count as one write, even if different processes send them.
std::string Fingerprint(const ProxiedRequest& write) {
  const json body = json::parse(write.body, nullptr, false);
  if (write.Path().find("/events") != std::string::npos) return "event " + TextAt(body, "/reason");
  std::string name = TextAt(body, "/metadata/name");
  if (name.find("-launcher-") != std::string::npos) name.resize(name.rfind('-'));
  std::string print = write.method + " " + write.Path() + " " + name;
  if (!write.Path().ends_with("/status")) return print;
  print += TextAt(body, "/status/state") + TextAt(body, "/status/worldSize");
  for (const json& condition : At(body, "/status/conditions")) {
    print += " " + TextAt(condition, "/type") + "=" + TextAt(condition, "/status");
  }
  return print;
}

class KillTest : public ClusterTest {
 protected:
  // Kills the operator twice at each distinct write: before it arrives, then after it was stored.
  Fault Decide(const ProxiedRequest& request) {
    const std::lock_guard lock(mutex_);
    if (dead_) return CutBefore();
    if (request.write == 0) return Pass();
    const int times = seen_[Fingerprint(request)]++;
    if (times > 1) return Pass();
    dead_ = true;
    ++kills_;
    const auto kill = [this] { Kill(); };
    return times == 0 ? CutBefore(kill) : CutAfter(kill);
  }

  void Kill() {
    const std::lock_guard lock(mutex_);
    if (victim_ != nullptr) victim_->Kill();
  }

  void Restart() {
    {
      const std::lock_guard lock(mutex_);
      victim_ = nullptr;
    }
    LaunchOperator();
    const std::lock_guard lock(mutex_);
    victim_ = &op();
    dead_ = false;
  }

  // Restarts the operator whenever it dies, as the kubelet would, until `condition` is true.
  void LiveUntil(const std::string& what, const std::function<bool()>& condition) {
    WaitFor(
        what,
        [&] {
          if (!op().process().Running()) Restart();
          return condition();
        },
        std::chrono::seconds(240));
  }

  // Waits until an operator survives all its writes and stays ready for a while.
  void AwaitLastingProcess() {
    int kills = -1;
    auto since = std::chrono::steady_clock::now();
    LiveUntil("a process that lives on", [&] {
      const auto now = std::chrono::steady_clock::now();
      if (std::exchange(kills, Kills()) != kills || op().Probe("/readyz") != 200) since = now;
      return now - since > std::chrono::seconds(2);
    });
  }

  int Kills() {
    const std::lock_guard lock(mutex_);
    return kills_;
  }

  void TearDown() override {
    proxy().SetPolicy(nullptr);
    ClusterTest::TearDown();
  }

 private:
  std::mutex mutex_;  // protects what follows
  OperatorProcess* victim_ = nullptr;
  bool dead_ = false;
  int kills_ = 0;
  std::map<std::string, int> seen_;
};

TEST_F(KillTest, AtEveryWriteOfAJobsLife) {
  StartKubelet();
  proxy().SetPolicy([this](const ProxiedRequest& request) { return Decide(request); });
  Restart();
  CreateJob("digits", 2);
  LiveUntil("the job to run",
            [&] { return TextAt(Condition("digits", "Running"), "/status") == "True"; });
  const std::string launcher =
      "digits-launcher-" + TextAt(Job("digits"), "/status/internal/launcherTerm");
  const std::string deleted = TextAt(List("pods")["digits-worker-1"], "/metadata/uid");
  ASSERT_TRUE(admin().Delete(Path("pods", "digits-worker-1")).ok());
  // Restart the operator only after the Pod is gone: the Pod's replacement has the same name.
  WaitFor("the Pod to go",
          [&] { return TextAt(List("pods")["digits-worker-1"], "/metadata/uid") != deleted; });
  LiveUntil("the replacement to be a member", [&] {
    const auto serving = kubelet().Launcher(launcher, std::chrono::milliseconds(0));
    const std::string now = TextAt(List("pods")["digits-worker-1"], "/metadata/uid");
    if (serving == nullptr || now.empty() || now == deleted) return false;
    const auto status = serving->Status();
    return std::any_of(status.workers.begin(), status.workers.end(),
                       [&](const control::WorkerReport& worker) {
                         return worker.member && worker.pod_uid == now;
                       });
  });
  FinishJob("digits", Success(2),
            std::stoll(TextAt(Job("digits"), "/status/internal/launcherTerm")));
  LiveUntil("the job to succeed",
            [&] { return TextAt(Condition("digits", "Succeeded"), "/status") == "True"; });
  // Nothing ends the workers of the fake kubelet but the operator.
  LiveUntil("the workers to be deleted", [&] { return List("pods").size() == 1; });
  AwaitLastingProcess();

  RecordProperty("kills", Kills());
  EXPECT_GE(Kills(), 2 * 10) << "at least Secret, two Services, three Pods, two deleted Pods and "
                                "two statuses were to be killed at";
  EXPECT_EQ(Names("pods"), std::vector<std::string>{launcher});
  EXPECT_EQ(Names("services"), (std::vector<std::string>{"digits", "digits-launcher"}));
  EXPECT_EQ(Names("secrets").size(), 1u);
  std::map<std::string, int> created;
  for (const ProxiedRequest& write : proxy().Writes()) {
    if (write.method == "POST" && write.status == 201 &&
        write.Path().ends_with("/" + ns() + "/pods")) {
      ++created[TextAt(json::parse(write.body), "/metadata/name")];
    }
  }
  EXPECT_EQ(created[launcher], 1);
  EXPECT_EQ(created["digits-worker-0"], 1);
  EXPECT_EQ(created["digits-worker-1"], 2) << "the first and its replacement";
  EXPECT_EQ(created.size(), 3u) << "no other Pod was ever made";
  for (const json& failure : At(Job("digits"), "/status/failures")) {
    EXPECT_NE(TextAt(failure, "/reason"), "LauncherLost") << failure;
  }
}

TEST_F(KillTest, AtEveryWriteOfAScaleDown) {
  StartKubelet();
  Restart();
  RunJob("digits", 4);
  proxy().Forget();
  proxy().SetPolicy([this](const ProxiedRequest& request) { return Decide(request); });
  ASSERT_TRUE(
      admin().MergePatch(JobPath("digits"), {{"spec", {{"worker", {{"replicas", 2}}}}}}).ok());
  LiveUntil("a world of two", [&] {
    return List("pods").size() == 3 &&
           TextAt(Condition("digits", "Resizing"), "/status") == "False" &&
           TextAt(Job("digits"), "/status/workers/desired") == "2" &&
           TextAt(Job("digits"), "/status/worldSize") == "2";
  });

  AwaitLastingProcess();
  const std::vector<std::string> pods = Names("pods");
  EXPECT_EQ(pods.size(), 3u) << ::testing::PrintToString(pods);
  EXPECT_EQ(pods.front(), "digits-launcher-1");
  std::map<std::string, std::set<std::string>> written;
  for (const ProxiedRequest& write : proxy().Writes()) {
    if (write.Path().find("/pods") == std::string::npos) continue;
    written[write.method].insert(write.Path().substr(write.Path().rfind('/') + 1));
  }
  // If an operator is killed before it stores a worker's mark, the next may mark another worker.
  // No worker that stays may have a mark.
  for (const auto& [name, pod] : List("pods")) {
    EXPECT_EQ(TextAt(pod, "/metadata/annotations/ringmaster.dev~1leaving"), "") << name;
  }
  EXPECT_EQ(written["DELETE"].size(), 2u) << ::testing::PrintToString(written["DELETE"]);
  EXPECT_EQ(written.count("POST"), 0u);
  EXPECT_GE(Kills(), 2 * 4) << "two marks and two deletions at least";
}

}  // namespace
}  // namespace ringmaster::testing
