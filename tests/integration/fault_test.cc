// Tests faults between the operator and the API server: interrupted and expired watches, repeated
// and late events, conflicts, throttling and server errors. With every fault, a job must end with
// the same objects, and each must be created only once.

#include <atomic>

#include <gmock/gmock.h>

#include "tests/integration/cluster_test.h"

namespace ringmaster::testing {
namespace {

using ::testing::UnorderedElementsAre;

class FaultTest : public ClusterTest {
 protected:
  // Returns how often the API server created each Pod through this proxy, by Pod name.
  std::map<std::string, int> Created() {
    std::map<std::string, int> created;
    for (const ProxiedRequest& write : proxy().Writes()) {
      if (write.method != "POST" || write.status != 201 ||
          !write.Path().ends_with("/" + ns() + "/pods"))
        continue;
      ++created[TextAt(json::parse(write.body), "/metadata/name")];
    }
    return created;
  }

  // Expects two workers and one launcher, each created once. A lost answer may skip a term.
  void ExpectTwoWorkersMadeOnce(const std::string& job) {
    EXPECT_THAT(Names("pods"),
                UnorderedElementsAre(Launcher(job), job + "-worker-0", job + "-worker-1"));
    for (const auto& [name, count] : Created()) EXPECT_EQ(count, 1) << name;
  }
  std::string Launcher(const std::string& job) {
    return job + "-launcher-" + TextAt(Job(job), "/status/internal/launcherTerm");
  }

  // Ends the job. The workers exit first, because the operator deletes running workers.
  void End(const std::string& job) {
    for (const std::string& worker : {job + "-worker-0", job + "-worker-1"}) {
      // The Pod may not run yet, although the fake launcher already reports it.
      WaitFor("the end of " + worker, [&] { return kubelet().Terminate(worker, 0, "").ok(); });
    }
    FinishJob(job, Success(2), std::stoll(TextAt(Job(job), "/status/internal/launcherTerm")));
    WaitCondition(job, "Succeeded", "True");
  }

  // Injects `fault` into the first `times` requests that match, and counts the matches.
  void Break(int times, const Fault& fault, std::function<bool(const ProxiedRequest&)> matches) {
    proxy().SetPolicy(
        [this, times, fault, matches = std::move(matches)](const ProxiedRequest& request) {
          return matches(request) && broken_++ < times ? fault : Pass();
        });
  }
  bool InNamespace(const ProxiedRequest& request) const {
    return request.target.find("/" + ns() + "/") != std::string::npos;
  }

  std::atomic<int> broken_{0};  // matches counted by the proxy's policy; outlives the proxy
};

TEST_F(FaultTest, WatchesThatAreCutLoseNothing) {
  StartOperator();
  StartKubelet();
  CreateJob("digits", 2);
  for (int i = 0; i < 5; ++i) {
    proxy().CutWatches();
    ASSERT_TRUE(kubelet().Launcher("digits-launcher-1") != nullptr);
  }
  WaitCondition("digits", "Running", "True");
  proxy().CutWatches();
  End("digits");
  ExpectTwoWorkersMadeOnce("digits");
}

TEST_F(FaultTest, ExpiredWatchesListAgainAndSeeWhatVanishedMeanwhile) {
  StartOperator();
  RunJob("digits", 2);
  // Reject watches until the Pod is gone, so that only a list can show its deletion.
  proxy().SetPolicy([](const ProxiedRequest& request) {
    return request.method == "GET" && request.target.find("/pods") != std::string::npos
               ? Answer(503, "ServiceUnavailable")
               : Pass();
  });
  proxy().ExpireWatches();
  const std::string before = TextAt(List("pods")["digits-worker-1"], "/metadata/uid");
  ASSERT_TRUE(admin().Delete(Path("pods", "digits-worker-1")).ok());
  WaitFor("the Pod to go", [&] { return !List("pods").contains("digits-worker-1"); });
  proxy().SetPolicy(nullptr);
  WaitFor(
      "a replacement", [&] { return List("pods").contains("digits-worker-1"); },
      std::chrono::seconds(180));
  EXPECT_NE(TextAt(List("pods")["digits-worker-1"], "/metadata/uid"), before);
}

TEST_F(FaultTest, RepeatedAndLateEventsMakeNoTwin) {
  proxy().SetRepeatEvents(true);
  proxy().SetEventDelay(std::chrono::milliseconds(50));
  StartOperator();
  RunJob("digits", 2);
  End("digits");
  ExpectTwoWorkersMadeOnce("digits");
}

TEST_F(FaultTest, ConflictsOnTheStatusAreTriedAgain) {
  StartOperator();
  Break(3, Answer(409, "Conflict"), [this](const ProxiedRequest& r) {
    return InNamespace(r) && r.IsWrite() && r.Path().ends_with("/status");
  });
  RunJob("digits", 2);
  EXPECT_GE(broken_, 3);
  ExpectTwoWorkersMadeOnce("digits");
}

TEST_F(FaultTest, ThrottledCreatesComeBackWhenTold) {
  StartOperator();
  Break(3, Answer(429, "TooManyRequests", 1), [this](const ProxiedRequest& r) {
    return InNamespace(r) && r.method == "POST" && r.Path().ends_with("/pods");
  });
  RunJob("digits", 2);
  EXPECT_GE(broken_, 3);
  ExpectTwoWorkersMadeOnce("digits");
}

TEST_F(FaultTest, ServerErrorsAndCutConnectionsAreNoVerdict) {
  StartOperator();
  proxy().SetPolicy([this](const ProxiedRequest& r) {
    if (!InNamespace(r) || !r.IsWrite()) return Pass();
    switch (broken_++) {
      case 0:
        return Answer(500, "InternalError");
      case 2:
        return CutBefore();
      case 4:
        return CutAfter();  // the write is stored, but the operator gets no answer
      case 6:
        return Answer(503, "ServiceUnavailable");
      case 8:
        return CutAfter();
      default:
        return Pass();
    }
  });
  RunJob("digits", 2);
  End("digits");
  EXPECT_GE(broken_, 9);
  ExpectTwoWorkersMadeOnce("digits");
  EXPECT_TRUE(At(Job("digits"), "/status/failures").empty());
}

}  // namespace
}  // namespace ringmaster::testing
