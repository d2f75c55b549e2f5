#include "operator/job/policy/verdict_policy.h"

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "tests/builders/job_builder.h"

namespace ringmaster::job {
namespace {

using ringmaster::testing::JobBuilder;
using ringmaster::testing::PodBuilder;
using ringmaster::testing::SceneBuilder;

constexpr char kNowText[] = "2026-11-20T10:00:00Z";

TEST(VerdictPolicy, OnlyContainersThatCanNeverStartEndTheJob) {
  struct VerdictCase {
    PodBuilder pod;
    bool ends;
  };
  const VerdictCase table[] = {
      {PodBuilder::Worker(0), false},
      {PodBuilder::Worker(0).Waiting("ContainerCreating", ""), false},
      {PodBuilder::Worker(0).Waiting("ErrImagePull", "no such file or directory"), false},
      {PodBuilder::Worker(0).Waiting("ImagePullBackOff", ""), false},
      {PodBuilder::Worker(0).Waiting("CreateContainerError", "context deadline exceeded"), false},
      {PodBuilder::Worker(0).Waiting("CreateContainerError",
                                     "exec: \"x\": executable file not found in $PATH"),
       true},
      {PodBuilder::Worker(0).Waiting("CreateContainerConfigError", "configmap \"x\" not found"),
       true},
      {PodBuilder::Worker(0).Waiting("CreateContainerConfigError",
                                     "failed to sync configmap cache"),
       false},
      {PodBuilder::Worker(0).Waiting("CreateContainerConfigError",
                                     "services have not yet been read at least once, cannot "
                                     "construct envvars"),
       false},
      {PodBuilder::Worker(0).Waiting(
           "RunContainerError", "error during container init: exec: \"/x\": permission denied"),
       true},
      {PodBuilder::Worker(0).Ended(128, "StartError",
                                   "error running hook: nvidia-container-cli: load library failed: "
                                   "libnvidia-ml.so.1: no such file or directory"),
       false},
      {PodBuilder::Worker(0).Waiting("InvalidImageName", "bad"), true},
      {PodBuilder::Worker(0).Ended(
           128, "StartError", "exec: \"ringmaster-agent\": executable file not found in $PATH"),
       true},
      {PodBuilder::Worker(0).Ended(128, "ContainerCannotRun", "exec: \"x\": permission denied"),
       true},
      {PodBuilder::Worker(0).Ended(128, "RunContainerError", "exec: \"x\": permission denied"),
       true},
      {PodBuilder::Worker(0).Ended(126, "Error", "sh: exec: \"x\": permission denied"), false},
      {PodBuilder::Worker(0).Ended(128, "StartError", "cgroup is gone"), false},
      {PodBuilder::Worker(0).Ended(1, "Error", "no such file or directory"), false},
  };
  for (const VerdictCase& row : table) {
    const api::TrainingJob job = JobBuilder().Term(1).Build();
    const PodPtr pod = row.pod.Build();

    const auto outcome =
        JudgeOutcome(SceneBuilder(job).Launcher().With(row.pod).Build(), false, kNowText);

    EXPECT_EQ(outcome.has_value(), row.ends)
        << pod->container.waiting_reason << " " << pod->container.ended_message;
    if (outcome) {
      EXPECT_FALSE(outcome->succeeded);
      EXPECT_NE(outcome->message.find("digits-worker-0 on node node-1"), std::string::npos);
      EXPECT_TRUE(outcome->message.ends_with(". Then delete the job and apply it again"));
      ASSERT_TRUE(outcome->failure.has_value());
      EXPECT_EQ(outcome->failure->reason, api::kReasonStartError);
    }
  }
}

TEST(VerdictPolicy, AnImageThatRunsAsRootIsNamedAsTheCause) {
  const auto pod = PodBuilder::Worker(0)
                       .Waiting("CreateContainerConfigError",
                                "container has runAsNonRoot and image will run as root (pod: "
                                "\"digits-worker-0_team-a(6142860e)\", container: worker)")
                       .Build();

  const std::string why = CannotStart(*pod);

  EXPECT_TRUE(
      why.starts_with("digits-worker-0 on node node-1 cannot start "
                      "(CreateContainerConfigError): its image runs as root, and the job's "
                      "Pods may not run as root; if spec.inject is None, remove it"))
      << why;
  EXPECT_EQ(why.find("6142860e"), std::string::npos) << why;
}

TEST(VerdictPolicy, AnImageWithoutOurProgramsIsReported) {
  const api::TrainingJob job = JobBuilder().Term(1).Build();
  const auto message = [&](const PodBuilder& pod) {
    return JudgeOutcome(SceneBuilder(job).With(pod).Build(), false, kNowText)->message;
  };

  EXPECT_NE(message(PodBuilder::Worker(0).Ended(
                        128, "StartError",
                        "exec: \"ringmaster-agent\": executable file not found in $PATH"))
                .find("Its image has no ringmaster-agent"),
            std::string::npos);
  EXPECT_NE(message(PodBuilder::Launcher(1).Waiting(
                        "RunContainerError",
                        "exec: \"ringmaster-launcher\": executable file not found in $PATH"))
                .find("use an image built from ringmaster-worker"),
            std::string::npos);
  EXPECT_EQ(message(PodBuilder::Worker(0).Waiting("CreateContainerError",
                                                  "exec: \"sidecar\": executable file not found"))
                .find("Its image"),
            std::string::npos);
}

TEST(VerdictPolicy, APodThatCannotStartDoesNotEndAJobThatHasTrained) {
  const api::TrainingJob job = JobBuilder().Term(1).Build();
  const Observed observed =
      SceneBuilder(job)
          .Launcher()
          .With(PodBuilder::Worker(0).Waiting("CreateContainerConfigError", "no secret"))
          .Build();

  EXPECT_TRUE(JudgeOutcome(observed, false, kNowText).has_value());
  EXPECT_FALSE(JudgeOutcome(observed, true, kNowText).has_value());
}

TEST(VerdictPolicy, SuccessOfAnEarlierLauncherStandsButItsFailureDoesNot) {
  const api::TrainingJob job = JobBuilder().Term(2).Build();
  const auto with = [&](bool succeeded) {
    return JudgeOutcome(SceneBuilder(job)
                            .With(PodBuilder::Launcher(1).EndedWith(
                                {.succeeded = succeeded, .reason = "RankFailed"}))
                            .Launcher()
                            .Build(),
                        true, kNowText);
  };

  EXPECT_TRUE(with(true).has_value());
  EXPECT_FALSE(with(false).has_value());
}

TEST(VerdictPolicy, LogLinesAreNoVerdict) {
  const PodPtr launcher =
      PodBuilder::Launcher(1).Ended(1, "Error", "terminate called\n{\"a\": 1}").Build();

  EXPECT_FALSE(VerdictOf(*launcher).has_value());
}

TEST(VerdictPolicy, OfALauncherThatRunsThereIsNoneYet) {
  PodView launcher = *PodBuilder::Launcher(1).EndedWith({.succeeded = true}).Build();
  ASSERT_TRUE(VerdictOf(launcher).has_value());
  launcher.container.terminated = false;

  EXPECT_FALSE(VerdictOf(launcher).has_value());
}

PodPtr Changed(const PodBuilder& builder, const std::function<void(PodView&)>& change) {
  PodView pod = *builder.Build();
  change(pod);
  return std::make_shared<const PodView>(pod);
}

// Returns a Pod that was evicted from its node and whose status lacks the container's end.
PodPtr Evicted(const PodBuilder& builder, const char* message) {
  return Changed(builder, [&](PodView& pod) {
    pod.phase = PodPhase::kFailed;
    pod.reason = "Evicted";
    pod.message = message;
  });
}

TEST(VerdictPolicy, ReportsHowAPodEndedFromItsContainerOrElseItsNode) {
  const PodBuilder worker = PodBuilder::Worker(0);
  const std::pair<PodPtr, const char*> table[] = {
      {PodBuilder(worker).Ended(3, "").Build(), "on node node-1 ended with exit code 3"},
      {PodBuilder(worker).Ended(139, "Error").Build(),
       "on node node-1 ended with exit code 139 (Error)"},
      {Changed(PodBuilder(worker).Ended(0, "Error"),
               [](PodView& pod) { pod.container.signal = 1; }),
       "on node node-1 ended by signal 1 (Error)"},
      {Evicted(worker, ""), "on node node-1 ended (Evicted)"},
      {Evicted(worker, "memory is low"), "on node node-1 ended (Evicted: memory is low)"},
      {Evicted(PodBuilder(worker).Ended(137, "Error"), "memory is low"),
       "on node node-1 ended with exit code 137 (Error)"},
      {PodBuilder(worker).Phase(PodPhase::kFailed).Build(), "on node node-1 ended"},
      {PodBuilder(worker).Phase(PodPhase::kFailed).OnNode("").Build(), "ended"},
  };
  for (const auto& [pod, text] : table) {
    EXPECT_EQ(HowItEnded(*pod), std::string("digits-worker-0 ") + text);
  }
}

TEST(VerdictPolicy, AFailureHasTheMessageOfThePodsContainerOrElseItsNode) {
  const PodBuilder worker = PodBuilder::Worker(0);
  struct Row {
    const char* name;
    PodPtr pod;
    int exit_code;
    const char* reason;
    std::vector<std::string> lines;
  };
  const Row table[] = {
      {"nobody saw it end", worker.Build(), -1, api::kReasonWorkerFailed, {}},
      {"it printed something",
       PodBuilder(worker).Ended(3, "Error", "a\n\nb\n").Build(),
       3,
       "Error",
       {"a", "b"}},
      {"evicted", Evicted(worker, "memory\nis low"), -1, "Evicted", {"memory", "is low"}},
      {"evicted, and printed something",
       Evicted(PodBuilder(worker).Ended(137, "Error", "a"), "memory is low"),
       137,
       "Evicted",
       {"a"}},
  };
  for (const Row& row : table) {
    EXPECT_EQ(FailureOf(*row.pod, kNowText), (api::Failure{.worker = "digits-worker-0",
                                                           .pod_uid = "uid-worker-0",
                                                           .node = "node-1",
                                                           .rank = -1,
                                                           .exit_code = row.exit_code,
                                                           .signal = 0,
                                                           .reason = row.reason,
                                                           .last_lines = row.lines,
                                                           .time = kNowText}))
        << row.name;
  }
}

TEST(VerdictPolicy, OfWhatAPodPrintedTheLastTenLinesStayAndOfEachItsBeginning) {
  std::string printed;
  for (char line = 'a'; line <= 'k'; ++line) printed += std::string(400, line) + "\n";

  const auto lines =
      FailureOf(*PodBuilder::Worker(0).Ended(1, "Error", printed).Build(), kNowText).last_lines;

  ASSERT_EQ(lines.size(), 10U);
  EXPECT_EQ(lines.front(), std::string(300, 'b'));
  EXPECT_EQ(lines.back(), std::string(300, 'k'));
}

}  // namespace
}  // namespace ringmaster::job
