#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/cli/fake_kubectl.h"
#include "tests/unit/cli/objects.h"

namespace ringmaster::cli {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

constexpr char kPodsNow[] =
    "*'get --namespace=team-a pods --selector=ringmaster.dev/job-uid='*' -o json'";
constexpr char kPodsWatch[] = "*' pods '*' --watch '*";
constexpr char kJobWatch[] = "*' digits --watch '*";

std::string LogOf(const std::string& pod) { return "*'logs --namespace=team-a " + pod + " '*"; }

std::string At(const char* time, const std::string& line) {
  return "2026-11-20T10:00:" + std::string(time) + "Z " + line + "\n";
}

// Adds a job with two launchers, one after the other, and two workers.
void AddJob(FakeKubectl& kubectl) {
  kubectl.Gets(kGetJob, JobObject(RunningStatus()));
  kubectl.Gets(kPodsNow, ListOf({PodObject("digits-worker-0", "worker", 0),
                                 PodObject("digits-worker-1", "worker", 1),
                                 PodObject("digits-launcher-2", "launcher", 2),
                                 PodObject("digits-launcher-1", "launcher", 1)}));
  kubectl.Prints(LogOf("digits-launcher-1"),
                 At("00.5", "2026-11-20T10:00:00.500Z info launcher Started the launcher") +
                     At("01.1", "first") + At("01.2", "[1,1]<stderr>: oops") +
                     At("01.3", "mpirun has words"));
  kubectl.Prints(LogOf("digits-launcher-2"),
                 At("05", "2026-11-20T10:00:05.000Z info launcher Took over a world") +
                     At("06.1", "[1,0]<stdout>:second"));
  kubectl.Prints(LogOf("digits-worker-0"),
                 At("01.000000001", "[rank 0] first") + At("06", "[rank 0] second"));
  kubectl.Prints(LogOf("digits-worker-1"), At("00.25", "2026-11-20T10:00:00.250Z info agent Ran") +
                                               At("01", "[rank 1] oops") +
                                               // a time in the node's time zone
                                               "2026-11-20T12:00:05.5+02:00 [rank 1] between\n" +
                                               At("07", "no newline"));
}

TEST(Logs, AllRanksByTimeAcrossLaunchersAndEachLineOnce) {
  FakeKubectl kubectl;
  AddJob(kubectl);

  const auto ran = kubectl.Run({"logs", "digits"});

  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_EQ(ran.out,
            "[digits-worker-1] 2026-11-20T10:00:00.250Z info agent Ran\n"
            "[digits-launcher-1] 2026-11-20T10:00:00.500Z info launcher Started the launcher\n"
            "[rank 1] oops\n"
            "[rank 0] first\n"
            "[digits-launcher-1] mpirun has words\n"
            "[digits-launcher-2] 2026-11-20T10:00:05.000Z info launcher Took over a world\n"
            "[rank 1] between\n"
            "[rank 0] second\n"
            "[digits-worker-1] no newline\n");
}

TEST(Logs, OfOneRankAndOneWorker) {
  FakeKubectl kubectl;
  AddJob(kubectl);

  EXPECT_EQ(kubectl.Run({"logs", "digits", "--rank=1", "--timestamps"}).out,
            "2026-11-20T10:00:01Z [rank 1] oops\n"
            "2026-11-20T12:00:05.5+02:00 [rank 1] between\n");
  EXPECT_EQ(kubectl.Run({"logs", "digits", "--worker", "0"}).out,
            "[rank 0] first\n[rank 0] second\n");
}

TEST(Logs, LeavesOldLinesToKubectl) {
  FakeKubectl kubectl;
  AddJob(kubectl);

  kubectl.Run({"logs", "digits", "--since", "10m", "--tail=3", "--worker=1"});

  EXPECT_THAT(kubectl.Calls(), HasSubstr("logs --namespace=team-a digits-worker-1 --container "
                                         "worker --timestamps --since=10m --tail=3\n"));
}

TEST(Logs, CannotChangeATerminalAndAreWholeInAFile) {
  FakeKubectl kubectl;
  kubectl.Gets(kGetJob, JobObject(RunningStatus()));
  kubectl.Gets(kPodsNow, ListOf({PodObject("digits-worker-0", "worker", 0)}));
  const std::string line =
      "\x1b[31mred\x1b[0m \x1b]0;owned\x07 \xc2\x9b"
      "1A";
  kubectl.Prints(LogOf("digits-worker-0"), At("01", "[rank 0] " + line));

  EXPECT_EQ(kubectl.RunOnTerminal({"logs", "digits"}),
            "[rank 0] red ^[]0;owned^G \xef\xbf\xbd"
            "1A\r\n");
  EXPECT_EQ(kubectl.Run({"logs", "digits"}).out, "[rank 0] " + line + "\n");
}

TEST(Logs, OfManyLinesAreInOrderWhileOneStreamIsFarAhead) {
  FakeKubectl kubectl;
  kubectl.Gets(kGetJob, JobObject(RunningStatus()));
  kubectl.Gets(kPodsNow, ListOf({PodObject("digits-worker-0", "worker", 0),
                                 PodObject("digits-worker-1", "worker", 1)}));
  std::string many;
  for (int i = 0; i < 20000; ++i) many += At("01", "[rank 0] " + std::string(100, 'x'));
  const std::string gate = kubectl.Gate("late");
  kubectl.Prints(LogOf("digits-worker-0"), many);
  kubectl.On(LogOf("digits-worker-1"), gate + "; echo '" + At("02", "[rank 1] last") + "'");
  kubectl.Pass("late");

  const auto ran = kubectl.Run({"logs", "digits"});

  EXPECT_EQ(std::count(ran.out.begin(), ran.out.end(), '\n'), 20002);
  EXPECT_GT(ran.out.find("[rank 1] last"), std::size_t{20000} * 100);
}

TEST(Logs, SaysWhyThereIsNone) {
  FakeKubectl kubectl;
  json waiting = PodObject("digits-worker-0", "worker", 0);
  waiting["status"] = {{"phase", "Pending"}};
  kubectl.Gets(kGetJob, JobObject(RunningStatus()));
  kubectl.Gets(kPodsNow, ListOf({waiting}));

  const auto ran = kubectl.Run({"logs", "digits"});

  EXPECT_EQ(ran.code, 1);
  EXPECT_EQ(ran.err,
            "kubectl trainingjob: no Pod of digits has a log; \"kubectl trainingjob status "
            "digits\" says why\n");
}

TEST(Logs, OfMorePodsThanAllowedAreRefused) {
  FakeKubectl kubectl;
  AddJob(kubectl);

  const auto ran = kubectl.Run({"logs", "digits", "--max-log-requests=3"});

  EXPECT_EQ(ran.code, 1);
  EXPECT_THAT(ran.err, HasSubstr("digits has more than 3 Pods with logs"));
}

std::string Event(const char* type, const json& object) {
  return json{{"type", type}, {"object", object}}.dump(4) + "\n";
}

TEST(Logs, FollowPodsThatAreReplacedUntilTheJobEnds) {
  FakeKubectl kubectl;
  const json worker = PodObject("digits-worker-0", "worker", 0, "first");
  const json launcher = PodObject("digits-launcher-1", "launcher", 1);
  json ended = JobObject(RunningStatus());
  ended["status"]["conditions"].push_back(Condition("Succeeded", "True", "Completed", "done"));
  const std::string file = kubectl.folder() / "events";
  std::ofstream(file) << Event("DELETED", worker)
                      << Event("ADDED", PodObject("digits-worker-0", "worker", 0, "second"))
                      << Event("ADDED", PodObject("digits-launcher-2", "launcher", 2));
  std::ofstream(file + ".job") << Event("MODIFIED", ended);
  kubectl.Gate("end");
  const std::string hold = kubectl.Gate("hold");
  kubectl.Gets(kGetJob, JobObject(RunningStatus()));
  kubectl.On(kPodsWatch, kubectl.Gate("replace") + "; cat " + file + "; " + hold);
  kubectl.On(kJobWatch, kubectl.Gate("finish") + "; cat " + file + ".job; " + hold);
  kubectl.Gets(kPodsNow, ListOf({worker, launcher}));
  kubectl.Prints(LogOf("digits-launcher-1"),
                 At("00", "2026-11-20T10:00:00.000Z info launcher Started"));
  kubectl.Prints(LogOf("digits-launcher-2"),
                 At("03", "2026-11-20T10:00:03.000Z info launcher Took over"));
  const std::string seen = kubectl.folder() / "seen";
  kubectl.On(LogOf("digits-worker-0"),
             "if mkdir " + seen + " 2>/dev/null; then echo '" + At("01", "[rank 0] one") +
                 "' | sed '/^$/d'; else echo '" + At("04", "[rank 0] two") +
                 "' | sed '/^$/d'; fi; " + hold);

  bool replaced = false;
  bool finished = false;
  const auto ran = kubectl.Run({"logs", "-f", "digits"}, [&](const std::string& out) {
    if (!replaced && out.find("one") != std::string::npos) {
      replaced = true;
      kubectl.Pass("replace");
    }
    if (!finished && out.find("two") != std::string::npos &&
        out.find("Took over") != std::string::npos) {
      finished = true;
      kubectl.Pass("finish");
      for (int i = 0; i < 8; ++i) kubectl.Pass("hold");
    }
  });

  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_TRUE(finished) << ran.out;
  EXPECT_THAT(ran.out, HasSubstr("[rank 0] one\n"));
  EXPECT_THAT(ran.out,
              HasSubstr("[digits-launcher-2] 2026-11-20T10:00:03.000Z info launcher Took over\n"));
  EXPECT_EQ(ran.out.find("one"), ran.out.rfind("one"));
  EXPECT_EQ(ran.out.find("two"), ran.out.rfind("two"));
}

TEST(Logs, ABrokenConnectionLosesAndRepeatsNoLine) {
  FakeKubectl kubectl;
  json ended = JobObject(RunningStatus());
  ended["status"]["conditions"].push_back(Condition("Failed", "True", "RankFailed", "over"));
  const std::string file = kubectl.folder() / "event";
  std::ofstream(file) << Event("MODIFIED", ended);
  const std::string hold = kubectl.Gate("hold");
  kubectl.Gets(kGetJob, JobObject(RunningStatus()));
  kubectl.On(kPodsWatch, hold);
  kubectl.On(kJobWatch, kubectl.Gate("finish") + "; cat " + file + "; " + hold);
  kubectl.Gets(kPodsNow, ListOf({PodObject("digits-worker-0", "worker", 0)}));
  std::ofstream(kubectl.folder() / "log")
      << At("01.5", "[rank 0] one") << At("01.7", "[rank 0] two");
  kubectl.On("*logs*--since-time=2026-11-20T10:00:01Z*",
             "cat " + (kubectl.folder() / "log").string() + "; " + hold);
  kubectl.On(LogOf("digits-worker-0"), "head -n 1 " + (kubectl.folder() / "log").string() +
                                           "; echo 'unexpected EOF' >&2; exit 1");

  bool finished = false;
  const auto ran = kubectl.Run({"logs", "--follow", "digits"}, [&](const std::string& out) {
    if (finished || out.find("two") == std::string::npos) return;
    finished = true;
    kubectl.Pass("finish");
    for (int i = 0; i < 8; ++i) kubectl.Pass("hold");
  });

  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_EQ(ran.out, "[rank 0] one\n[rank 0] two\n");
}

TEST(Logs, FollowingEndsIfAnotherJobHasTheName) {
  FakeKubectl kubectl;
  json other = JobObject(RunningStatus());
  other["metadata"]["uid"] = "uid-of-another-job";
  const std::string file = kubectl.folder() / "event";
  std::ofstream(file) << Event("ERROR", {{"kind", "Status"}, {"code", 410}});
  std::ofstream(file + ".other") << Event("ADDED", other);
  kubectl.Gets(kGetJob, JobObject(RunningStatus()));
  kubectl.On(kPodsWatch, kubectl.Gate("hold"));
  kubectl.On(kJobWatch,
             "cat " + file + "; " + kubectl.Gate("recreate") + "; cat " + file + ".other");
  kubectl.Gets(kPodsNow, ListOf({PodObject("digits-worker-0", "worker", 0)}));
  kubectl.Prints("*logs*--since-time=*", At("02", "[rank 0] two"));
  kubectl.Prints(LogOf("digits-worker-0"), At("01", "[rank 0] one"));

  bool recreated = false;
  const auto ran = kubectl.Run({"logs", "-f", "digits"}, [&](const std::string& out) {
    if (recreated || out.find("two") == std::string::npos) return;
    recreated = true;
    kubectl.Pass("recreate");
  });

  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_EQ(ran.out, "[rank 0] one\n[rank 0] two\n");
}

// Tests a job that has already ended although one container still runs.
TEST(Logs, FollowingAnEndedJobEndsAlthoughAContainerRunsOn) {
  FakeKubectl kubectl;
  json ended = JobObject(RunningStatus());
  ended["status"]["conditions"].push_back(Condition("Failed", "True", "RankFailed", "over"));
  const std::string hold = kubectl.Gate("hold");
  kubectl.Gets(kGetJob, ended);
  kubectl.On(kPodsWatch, hold);
  kubectl.On(kJobWatch, hold);
  kubectl.Gets(kPodsNow, ListOf({PodObject("digits-worker-0", "worker", 0)}));
  std::ofstream(kubectl.folder() / "log") << At("01", "[rank 0] one");
  kubectl.On(LogOf("digits-worker-0"), "cat " + (kubectl.folder() / "log").string() + "; " + hold);

  const auto ran = kubectl.Run({"logs", "-f", "digits"});

  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_EQ(ran.out, "[rank 0] one\n");
}

TEST(Logs, FollowingWithoutTheRightToReadLogsEndsWithTheReason) {
  FakeKubectl kubectl;
  const std::string hold = kubectl.Gate("hold");
  kubectl.Gets(kGetJob, JobObject(RunningStatus()));
  kubectl.On(kPodsWatch, hold);
  kubectl.On(kJobWatch, hold);
  kubectl.Gets(kPodsNow, ListOf({PodObject("digits-worker-0", "worker", 0)}));
  kubectl.Refuses(LogOf("digits-worker-0"), "Error from server (Forbidden): pods/log is forbidden");

  const auto ran = kubectl.Run({"logs", "-f", "digits"});

  EXPECT_EQ(ran.code, 1);
  EXPECT_THAT(ran.err, HasSubstr("pods/log is forbidden"));
}

}  // namespace
}  // namespace ringmaster::cli
