#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/cli/fake_kubectl.h"
#include "tests/unit/cli/objects.h"

namespace ringmaster::cli {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

// Returns the output of `status` for this job.
FakeKubectl::Ran StatusOf(const json& job, const json& pods = ListOf({}),
                          const json& events = ListOf({}), const char* format = nullptr) {
  FakeKubectl kubectl;
  kubectl.Gets(kGetJob, job);
  kubectl.Gets("*' pods '*", pods);
  kubectl.Gets("*' events '*", events);
  if (format == nullptr) return kubectl.Run({"status", "digits"});
  return kubectl.Run({"status", "digits", "-o", format});
}

json JobWith(const char* state, const char* reason, const json& conditions) {
  return JobObject({{"observedGeneration", 1},
                    {"state", state},
                    {"reason", reason},
                    {"workers", {{"desired", 2}, {"replicas", 1}, {"ready", 0}, {"members", 0}}},
                    {"epoch", 0},
                    {"worldSize", 0},
                    {"conditions", conditions}});
}

TEST(Status, OneScreenOfAJobThatTrains) {
  const json pods =
      ListOf({PodObject("digits-worker-1", "worker", 1), PodObject("digits-worker-0", "worker", 0),
              PodObject("digits-launcher-1", "launcher", 1)});
  const json events = ListOf({{{"involvedObject", {{"uid", kUid}}},
                               {"type", "Warning"},
                               {"reason", "WorkerReplaced"},
                               {"message", "Another takes its place"},
                               {"lastTimestamp", "2026-11-20T10:00:00Z"}},
                              {{"involvedObject", {{"uid", "a predecessor's"}}},
                               {"reason", "Succeeded"},
                               {"lastTimestamp", "2026-11-20T10:00:00Z"}}});

  const auto ran = StatusOf(JobObject(RunningStatus()), pods, events);

  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_THAT(ran.out, StartsWith("digits in namespace team-a trains\n"));
  for (const char* line :
       {"Progress       step 1200 of 2000 (60 %), 812.5 samples/s, loss 0.31\n",
        "World          4 ranks, epoch 4, mode InPlace, started by Mpirun, over SSH\n",
        "Workers        2 of 2 train, 2 ready, 2 Pods exist\n", "Profile        gpu\n",
        "Checkpoint     step 1000, ", "1 GiB kept\n",
        "Last recovery  RankKilled of digits-worker-1 on node2: detected after 37 ms, training "
        "resumed 1.4 s later, no step was lost\n",
        "RankFailed, digits-worker-1 on node2, rank 3, signal 9\n", "      RuntimeError: boom\n",
        "Warning  WorkerReplaced  Another takes its place\n"}) {
    EXPECT_THAT(ran.out, HasSubstr(line));
  }
  EXPECT_THAT(ran.out, Not(HasSubstr("Succeeded")));
  EXPECT_THAT(ran.out, HasSubstr("POD                NODE   STATE    RANKS  RESTARTS  AGE\n"
                                 "digits-launcher-1  node2  Running  -      0         "));
  EXPECT_LT(ran.out.find("digits-worker-0  "), ran.out.find("digits-worker-1  "));
  EXPECT_THAT(ran.out, HasSubstr("digits-worker-0    node1  Running  2      0         "));
}

TEST(Status, AHangOfAProgramThatIsRestartedIsDetectedOnlyWithALimit) {
  json status = RunningStatus();
  const auto told = [&](const json& faults) {
    json job = JobObject(status);
    job["spec"]["faultTolerance"] = faults;
    return StatusOf(job).out;
  };

  EXPECT_THAT(told(json::object()), Not(HasSubstr("Hang detection")));
  status["elasticity"]["mode"] = "Restart";
  EXPECT_THAT(
      told(json::object()),
      HasSubstr("Hang detection off, because spec.faultTolerance.stallAfterSeconds is 0: a job "
                "that hangs is Running, too. \"kubectl trainingjob logs digits --follow\" shows "));
  EXPECT_THAT(told(json::object()), HasSubstr("Workers        2 of 2 run, 2 ready, "));
  EXPECT_THAT(told({{"stallAfterSeconds", 20}}), Not(HasSubstr("Hang detection")));
}

// `status` explains a reason with the first part of its comment, and omits the later part, which
// names fields.
TEST(Status, TheMeaningOfAReasonIsWhole) {
  EXPECT_THAT(
      StatusOf(JobWith("Failed", "OOMKilled",
                       json::array({Condition("Failed", "True", "OOMKilled", "no memory")})))
          .out,
      HasSubstr("OOMKilled: no memory\nA rank or Pod ran out of memory crashLimit times in a row. "
                "Raise the memory limit.\n"));
}

TEST(Status, WorkersOfAJobThatIsPausedOrHasEndedDoNotTrain) {
  json paused = JobWith("Paused", "BelowMinReplicas", json::array());
  paused["status"]["workers"]["members"] = 2;
  paused["status"]["stragglers"] = json::array({{{"rank", 1},
                                                 {"worker", "digits-worker-1"},
                                                 {"node", "node2"},
                                                 {"stepMilliseconds", 103},
                                                 {"medianMilliseconds", 64}}});

  const std::string out = StatusOf(paused).out;
  EXPECT_THAT(out, HasSubstr("Workers        0 of 2 train, 0 ready, 1 Pod exists\n"));
  EXPECT_THAT(out, Not(HasSubstr("is slow")));
  json failed = JobWith("Failed", "RankFailed", json::array());
  failed["status"]["worldSize"] = 2;
  EXPECT_THAT(StatusOf(failed).out,
              AllOf(Not(HasSubstr("Workers  ")), HasSubstr("World          2 ranks at failure\n")));
}

TEST(Status, SaysWhyAJobDoesNotTrainAndWhatToDo) {
  const auto waits = StatusOf(JobWith(
      "Pending", "Unschedulable",
      {Condition("WorkersReady", "False", "Unschedulable", "0/3 nodes are available"),
       Condition("ChangePending", "True", "ChangedWhileRunning", "spec.worker.env differs")}));
  EXPECT_THAT(
      waits.out,
      StartsWith("digits in namespace team-a does not train yet, Unschedulable: 0/3 nodes "
                 "are available\nA Pod cannot be scheduled; the message says why and what to "
                 "do.\nAlso: ChangePending, "
                 "ChangedWhileRunning: spec.worker.env differs\n"));

  EXPECT_THAT(
      StatusOf(
          JobWith("Failed", "UserError",
                  json::array({Condition("Failed", "True", "UserError", "rank 0 ended with 2")})))
          .out,
      StartsWith("digits in namespace team-a has failed, UserError: rank 0 ended with 2\nA "
                 "rank exited with code 2: "));
  EXPECT_THAT(
      StatusOf(JobWith("Paused", "BelowMinReplicas",
                       json::array({Condition("Running", "False", "BelowMinReplicas", "1 of 2"),
                                    Condition("WorkersReady", "False", "Unschedulable", "no")})))
          .out,
      AllOf(StartsWith("digits in namespace team-a is paused and keeps its state, "
                       "BelowMinReplicas: 1 of 2\nFewer than spec.worker.minReplicas workers "),
            HasSubstr("Also: WorkersReady, Unschedulable: no\n")));
  for (const auto& [running, ready] :
       {std::pair("training is paused; no node", "no node"),
        std::pair("training is paused", "1 of 2 workers is ready; training is paused")}) {
    EXPECT_THAT(
        StatusOf(JobWith("Paused", "BelowMinReplicas",
                         json::array({Condition("Running", "False", "BelowMinReplicas", running),
                                      Condition("WorkersReady", "False", "X", ready)})))
            .out,
        Not(HasSubstr("Also: ")));
  }
  EXPECT_THAT(
      StatusOf(JobWith("Suspended", "Suspended",
                       json::array({Condition("Suspended", "True", "Suspended",
                                              "the job is suspended and has no Pods; it will "
                                              "resume from step 7")})))
          .out,
      StartsWith("digits in namespace team-a is suspended and has no Pods; it will resume from "
                 "step 7\nTo resume it: "));
  EXPECT_THAT(StatusOf(JobWith("Suspended", "Suspended", json::array())).out,
              StartsWith("digits in namespace team-a is suspended and has no Pods\nTo resume it: "
                         "kubectl -n team-a patch trainingjob digits "));
  EXPECT_THAT(
      StatusOf(
          JobWith("Succeeded", "Completed",
                  json::array({Condition("Succeeded", "True", "Completed", "all steps done")})))
          .out,
      StartsWith("digits in namespace team-a has succeeded, Completed: all steps done\n"));
  EXPECT_THAT(
      StatusOf(JobObject(nullptr)).out,
      AllOf(StartsWith("digits in namespace team-a has not been processed by an operator yet\n"),
            HasSubstr("kubectl trainingjob doctor")));
  EXPECT_THAT(StatusOf(JobObject(nullptr, {{"managedBy", "kueue.x-k8s.io/multikueue"}})).out,
              StartsWith("digits in namespace team-a is managed by another controller, "
                         "kueue.x-k8s.io/multikueue, which spec.managedBy names\n"));
}

TEST(Status, MissingAndUnknownFieldsAreOmitted) {
  json job = JobObject({{"state", "Resting"},
                        {"reason", 7},
                        {"progress", "soon"},
                        {"lastRecovery", {{"cause", "Comet"}}},
                        {"failures", {{{"reason", "X"}}, 3}},
                        {"new", {{"field", 1}}}});
  const json pods = ListOf({{{"metadata", {{"name", "p"}}}}, nullptr});

  const auto ran = StatusOf(job, pods);

  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_THAT(ran.out, StartsWith("digits in namespace team-a does not train yet\n"));
}

TEST(Status, WhatOthersWroteCannotChangeTheTerminal) {
  json status = RunningStatus();
  status["state"] = "Failed";
  status["reason"] = "RankFailed";
  status["conditions"] = json::array({Condition("Failed", "True", "RankFailed",
                                                "\x1b[2J\x1b]0;owned\x07 red \x1b[31m\xc2\x9b"
                                                "31m\xe2\x80\xae txt\nnext")});
  status["failures"][0]["lastLines"] = json::array({"a\x1b[1Ab\rc"});
  json pod = PodObject("digits-worker-0", "worker", 0);
  pod["spec"]["nodeName"] = "node\x1b[3J";

  const auto ran = StatusOf(JobObject(status), ListOf({pod}));

  EXPECT_THAT(ran.out, StartsWith("digits in namespace team-a has failed, RankFailed: "
                                  "^[[2J^[]0;owned^G red \xef\xbf\xbd"
                                  "31m\xef\xbf\xbd txt next\n"));
  EXPECT_THAT(ran.out, HasSubstr("a^[[1Ab^Mc"));
  EXPECT_EQ(ran.out.find('\x1b'), std::string::npos);

  const auto json_text = StatusOf(JobObject(status), ListOf({pod}), ListOf({}), "json");
  EXPECT_EQ(json_text.out.find_first_of("\x1b\xc2\xe2"), std::string::npos);
}

TEST(Status, ForScripts) {
  const auto ran =
      StatusOf(JobObject(RunningStatus()), ListOf({PodObject("digits-worker-0", "worker", 0)}),
               ListOf({}), "json");

  const json told = json::parse(ran.out);
  EXPECT_EQ(told["training"], true);
  EXPECT_EQ(told["sentence"], "trains");
  EXPECT_EQ(told["status"]["progress"]["step"], 1200);
  EXPECT_EQ(told["pods"][0]["node"], "node1");
  EXPECT_FALSE(told["status"].contains("internal"));
}

TEST(Status, PassesKubectlsFlagsOnAndNeverAShellLine) {
  FakeKubectl kubectl;
  kubectl.Gets(kGetJob, JobObject(RunningStatus()));
  kubectl.Gets("*", ListOf({}));

  const auto ran = kubectl.Run({"status", "tj/digits", "-n", "a;b", "--context=c d", "--as", "$(e)",
                                "--as-group", "g", "--as-group=h", "--insecure-skip-tls-verify"});

  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_THAT(
      kubectl.Calls(),
      StartsWith("--namespace=a;b --context=c d --as=$(e) --as-group=g --as-group=h "
                 "--insecure-skip-tls-verify get trainingjobs.ringmaster.dev digits -o json\n"));
}

TEST(Status, SaysWhatItCouldNotRead) {
  FakeKubectl kubectl;
  kubectl.Gets(kGetJob, JobObject(RunningStatus()));
  kubectl.Gets("*' pods '*", ListOf({}));
  kubectl.Refuses("*' events '*", "Error from server (Forbidden): events is forbidden");

  const auto ran = kubectl.Run({"status", "digits"});

  EXPECT_EQ(ran.code, 0);
  EXPECT_THAT(ran.out,
              HasSubstr("\nNot shown: Error from server (Forbidden): events is forbidden\n"));
}

// Returns the error message after kubectl failed with this output.
std::string ErrorAfter(const std::string& printed) {
  FakeKubectl kubectl;
  kubectl.Refuses("*", printed);
  const auto ran = kubectl.Run({"status", "digits"});
  EXPECT_EQ(ran.code, 1);
  EXPECT_EQ(ran.out, "");
  return ran.err;
}

TEST(Errors, OneSentenceWithWhatToDo) {
  EXPECT_THAT(
      ErrorAfter("Error from server (NotFound): trainingjobs \"digits\" not found"),
      StartsWith("kubectl trainingjob: there is no TrainingJob \"digits\" in this namespace; "));
  EXPECT_THAT(ErrorAfter("error: the server doesn'\\''t have a resource type \"trainingjobs\""),
              StartsWith("kubectl trainingjob: this cluster has no TrainingJobs, because "));
  EXPECT_EQ(ErrorAfter("E1127 memcache.go:265] again\nUnable to connect to the server: \x1b[5m!"),
            "kubectl trainingjob: Unable to connect to the server: !\n");
}

TEST(Errors, ALoginMayAskOnStandardError) {
  FakeKubectl kubectl;
  kubectl.On(kGetJob, "echo 'To sign in, open https://login.example.com' >&2; exit 1");

  const auto ran = kubectl.Run({"status", "digits"});

  EXPECT_EQ(ran.err,
            "To sign in, open https://login.example.com\n"
            "kubectl trainingjob: kubectl exited with code 1 without an error message\n");
}

TEST(Errors, AWrongCommandLineIsCodeTwo) {
  FakeKubectl kubectl;

  for (const std::vector<std::string>& wrong :
       std::vector<std::vector<std::string>>{{},
                                             {"statsu"},
                                             {"status"},
                                             {"status", "-x"},
                                             {"status", "a b"},
                                             {"status", "digits", "-o", "xml"}}) {
    const auto ran = kubectl.Run(wrong);
    EXPECT_EQ(ran.code, 2) << ran.err;
  }
  EXPECT_EQ(kubectl.Run({"--help"}).code, 0);
  EXPECT_THAT(kubectl.Run({"--version"}).out, StartsWith("kubectl-trainingjob "));
  EXPECT_EQ(kubectl.Calls(), "");
}

}  // namespace
}  // namespace ringmaster::cli
