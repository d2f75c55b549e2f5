#include "operator/job/model/views.h"

#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "common/json/json.h"

namespace ringmaster::job {
namespace {

PodView Project(const char* text) {
  auto pod = ProjectPod(*ParseJson(text));
  EXPECT_TRUE(pod.ok());
  return *std::move(pod);
}

TEST(Views, ReadTheManagedContainersEnd) {
  const PodView pod = Project(R"({
    "metadata": {"name": "d-launcher-2", "namespace": "a", "uid": "u", "creationTimestamp": "2026-01-01T00:00:00Z",
                 "labels": {"ringmaster.dev/role": "launcher", "ringmaster.dev/term": "2", "ringmaster.dev/revision": "r"},
                 "annotations": {"ringmaster.dev/seed-id": "s1"},
                 "ownerReferences": [{"kind": "TrainingJob", "name": "d", "uid": "o", "controller": true}]},
    "spec": {"nodeName": "n"},
    "status": {"phase": "Failed", "podIP": "10.0.0.1", "containerStatuses": [
      {"name": "side", "state": {"terminated": {"exitCode": 9}}},
      {"name": "launcher", "state": {"terminated": {"exitCode": 1, "reason": "Error", "message": "m",
                                                    "finishedAt": "2026-01-01T00:01:00Z"}}}]}})");

  EXPECT_EQ(pod.role, Role::kLauncher);
  EXPECT_EQ(pod.term, 2);
  EXPECT_EQ(pod.revision, "r");
  EXPECT_EQ(pod.seed_id, "s1");
  EXPECT_EQ(pod.owner_uid, "o");
  EXPECT_EQ(pod.phase, PodPhase::kFailed);
  EXPECT_TRUE(pod.container.terminated);
  EXPECT_EQ(pod.container.exit_code, 1);
  EXPECT_EQ(pod.container.ended_message, "m");
  EXPECT_EQ(pod.ip, "10.0.0.1");
  EXPECT_EQ(pod.node, "n");
}

// To save memory, a view has the limit only if the container ran out of memory.
TEST(Views, ReadTheMemoryLimitOfAContainerThatRanOutOfMemory) {
  for (const std::string reason : {"OOMKilled", "Error"}) {
    const std::string text =
        R"({"metadata": {"name": "d-worker-0", "labels": {"ringmaster.dev/role": "worker"}},
            "spec": {"containers": [{"name": "worker", "resources": {"limits": {"memory": "64Mi"}}},
                                    {"name": "side", "resources": {"limits": {"memory": "1Gi"}}}]},
            "status": {"containerStatuses": [{"name": "worker", "state": {"terminated": {"reason": ")" +
        reason + R"("}}}]}})";

    EXPECT_EQ(Project(text.c_str()).container.memory_limit, reason == "OOMKilled" ? "64Mi" : "");
  }
}

TEST(Views, ReadThePhaseOfAPod) {
  const std::pair<const char*, PodPhase> table[] = {{"Pending", PodPhase::kPending},
                                                    {"Running", PodPhase::kRunning},
                                                    {"Succeeded", PodPhase::kSucceeded},
                                                    {"Failed", PodPhase::kFailed},
                                                    {"Unknown", PodPhase::kUnknown}};
  for (const auto& [phase, read] : table) {
    const std::string text =
        std::string(R"({"metadata": {"name": "x"}, "status": {"phase": ")") + phase + R"("}})";
    EXPECT_EQ(Project(text.c_str()).phase, read) << phase;
  }
}

// The kubelet reports that containers have terminated before it changes the Pod's phase.
TEST(Views, APodHasStoppedWhenItsContainersHaveTerminated) {
  const std::string ended = R"({"state": {"terminated": {"exitCode": 0}}})";
  const std::string runs = R"({"state": {"running": {}}})";
  struct Row {
    const char* name;
    std::string sidecars;
    std::string containers;
    bool stopped;
  };
  for (const Row& row : std::vector<Row>{{"no status yet", "", "", false},
                                         {"one of two", "", ended, false},
                                         {"a container runs", "", ended + "," + runs, false},
                                         {"a sidecar runs", runs, ended + "," + ended, false},
                                         {"all", ended, ended + "," + ended, true}}) {
    const std::string text = R"({"metadata": {"name": "x"},
        "spec": {"containers": [{"name": "worker"}, {"name": "side"}]},
        "status": {"phase": "Running", "initContainerStatuses": [)" +
                             row.sidecars + R"(], "containerStatuses": [)" + row.containers + "]}}";
    const PodView pod = Project(text.c_str());
    EXPECT_EQ(pod.Stopped(), row.stopped) << row.name;
    EXPECT_FALSE(pod.Over()) << row.name;
  }
}

TEST(Views, ACountThatIsNoNumberIsNone) {
  const PodView pod = Project(R"({"metadata": {"name": "x", "labels": {
      "ringmaster.dev/index": "7x", "ringmaster.dev/term": ""}}})");

  EXPECT_EQ(pod.index, -1);
  EXPECT_EQ(pod.term, 0);
}

TEST(Views, AnAnnotationIsCut) {
  const std::string text =
      R"({"metadata": {"name": "x", "annotations": {"ringmaster.dev/leaving": ")" +
      std::string(1000, 'x') + R"("}}})";

  EXPECT_EQ(Project(text.c_str()).leaving, std::string(512, 'x'));
}

TEST(Views, AContainerThatHasEndedSaysMoreThanOneThatCannotStart) {
  const PodView pod = Project(R"({
    "metadata": {"name": "d-worker-0", "labels": {"ringmaster.dev/role": "worker"}},
    "status": {"containerStatuses": [
      {"name": "worker", "state": {"terminated": {}}},
      {"name": "side", "state": {"waiting": {"reason": "ImagePullBackOff"}}}]}})");

  EXPECT_EQ(pod.container.waiting_reason, "");
  EXPECT_TRUE(pod.container.terminated);
  EXPECT_EQ(pod.container.exit_code, 0);
  EXPECT_EQ(pod.container.signal, 0);
}

TEST(Views, AHealthyStartWaitsForContainers) {
  for (const char* reason : {"", "ContainerCreating", "PodInitializing"}) {
    EXPECT_TRUE(IsNormalWait(reason)) << reason;
  }
  EXPECT_FALSE(IsNormalWait("ImagePullBackOff"));
}

TEST(Views, ReadWhoseAServiceIsAndWhichLauncherItSelects) {
  const auto service = ProjectService(*ParseJson(R"({
    "metadata": {"name": "d-launcher", "annotations": {"ringmaster.dev/seed-id": "s1", "ringmaster.dev/installation": "us/lease"}},
    "spec": {"clusterIP": "10.96.0.7", "selector": {"ringmaster.dev/term": "3"}}})"));
  const auto plain = ProjectService(*ParseJson(R"({"metadata": {"name": "d"}})"));

  ASSERT_TRUE(service.ok() && plain.ok());
  EXPECT_EQ(service->name, "d-launcher");
  EXPECT_EQ(service->cluster_ip, "10.96.0.7");
  EXPECT_EQ(service->seed_id, "s1");
  EXPECT_EQ(service->installation, "us/lease");
  EXPECT_EQ(service->term, 3);
  EXPECT_EQ(plain->seed_id + plain->installation, "");
  EXPECT_EQ(plain->term, 0);
}

TEST(Views, ReadWhetherANamespaceGoes) {
  const auto stays = ProjectNamespace(*ParseJson(R"({"metadata": {"name": "a"}})"));
  const auto goes = ProjectNamespace(
      *ParseJson(R"({"metadata": {"name": "b", "deletionTimestamp": "2026-11-20T10:00:00Z"}})"));

  ASSERT_TRUE(stays.ok() && goes.ok());
  EXPECT_FALSE(stays->deleting);
  EXPECT_TRUE(goes->deleting);
}

TEST(Views, ReadWhatANamespaceShowsOfAProfile) {
  const auto profile = ProjectLocalProfile(*ParseJson(R"({
    "metadata": {"name": "gpu", "uid": "u", "annotations": {"ringmaster.dev/installation": "us/lease"}},
    "spec": {"default": true}})"));
  const auto empty = ProjectLocalProfile(*ParseJson(R"({"metadata": {"name": "gpu"}})"));

  ASSERT_TRUE(profile.ok() && empty.ok());
  EXPECT_EQ(profile->installation, "us/lease");
  EXPECT_EQ(profile->spec, R"({"default":true})");
  EXPECT_EQ(empty->spec, "");
}

TEST(Views, WhatHasNoNameIsNothing) {
  const auto nameless = *ParseJson(R"({"metadata": {}})");

  EXPECT_FALSE(ProjectPod(nameless).ok());
  EXPECT_FALSE(ProjectService(nameless).ok());
  EXPECT_FALSE(ProjectNode(nameless).ok());
  EXPECT_FALSE(ProjectNamespace(nameless).ok());
  EXPECT_FALSE(ProjectLocalProfile(nameless).ok());
}

TEST(Views, ShowTheContainerThatCannotStart) {
  const PodView pod = Project(R"({
    "metadata": {"name": "d-worker-0", "labels": {"ringmaster.dev/role": "worker", "ringmaster.dev/index": "0"}},
    "status": {"containerStatuses": [
      {"name": "worker", "state": {"waiting": {"reason": "ContainerCreating"}}},
      {"name": "side", "state": {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}}]}})");

  EXPECT_EQ(pod.index, 0);
  EXPECT_EQ(pod.container.waiting_reason, "ImagePullBackOff");
  EXPECT_EQ(pod.container.waiting_message, "no such image");
}

TEST(Views, KeepTheSchedulersMessage) {
  const PodView pod =
      Project(R"({"metadata": {"name": "x"}, "status": {"phase": "Pending", "conditions": [
    {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes"}]}})");

  EXPECT_EQ(pod.unschedulable, "0/3 nodes");
}

TEST(Views, ShowWhatAPodThatCannotBeScheduledRequests) {
  const auto request = [](const std::string& message) {
    const PodView pod = Project((R"({
    "metadata": {"name": "x", "labels": {"ringmaster.dev/role": "worker"}},
    "spec": {"containers": [
      {"name": "side", "resources": {"requests": {"cpu": "1", "example.com/disk": 1}}},
      {"name": "worker", "resources": {
          "requests": {"cpu": "4", "memory": null}, "limits": {"cpu": "8", "nvidia.com/gpu": "64"}}},
      {"name": "other", "resources": {"requests": {"cpu": "2"}, "limits": "?"}}, 7]},
    "status": {"conditions": [{"type": "PodScheduled", "status": )" +
                                 message + "}]}}")
                                    .c_str());
    return pod.request ? pod.request->container + " " + pod.request->amount : "none";
  };
  const auto lacking = [&](const std::string& resources) {
    return request(R"("False", "reason": "Unschedulable", "message": "0/3 nodes: )" + resources +
                   "\"");
  };

  EXPECT_EQ(lacking("3 Insufficient cpu."), "worker 4");
  EXPECT_EQ(lacking("3 Insufficient nvidia.com/gpu, 1 Insufficient cpu"), "worker 64");
  EXPECT_EQ(lacking("3 Insufficient example.com/disk"), "side 1");
  EXPECT_EQ(lacking("3 Insufficient example.com/other"), "none");
  EXPECT_EQ(lacking("3 node(s) were unschedulable"), "none");
  EXPECT_EQ(request("\"True\""), "none");
}

TEST(Views, ReadTheExtendedResourcesOfANode) {
  const auto of = [](const std::string& status) {
    const auto node = ProjectNode(
        *ParseJson(R"({"metadata": {"name": "n"}, "status": {"allocatable": )" + status + "}}"));
    return node.ok() ? node->extended_resources : std::map<std::string, int64_t>{{"error", 1}};
  };

  EXPECT_EQ(of(R"({"cpu": "8", "nvidia.com/gpu": "8", "a/b": 2, "a/c": "1k", "a/d": null})"),
            (std::map<std::string, int64_t>{{"a/b", 2}, {"nvidia.com/gpu", 8}}));
  EXPECT_EQ(of("[]"), (std::map<std::string, int64_t>{}));
  EXPECT_EQ(of("null"), (std::map<std::string, int64_t>{}));
}

TEST(Views, ReadWhenAPodGotItsNodeAndWhyItIsTakenAway) {
  const PodView pod = Project(R"({"metadata": {"name": "x"}, "status": {"conditions": [
      {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-11-20T10:00:00Z"},
      {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}]}})");
  EXPECT_EQ(pod.scheduled_at, "2026-11-20T10:00:00Z");
  EXPECT_EQ(pod.disruption, "EvictionByEvictionAPI");
  EXPECT_EQ(pod.unschedulable, "");
  const PodView no_more = Project(R"({"metadata": {"name": "x"}, "status": {"conditions": [
      {"type": "PodScheduled", "status": "False", "lastTransitionTime": "2026-11-20T10:00:00Z"},
      {"type": "DisruptionTarget", "status": "False", "reason": "EvictionByEvictionAPI"}]}})");
  EXPECT_EQ(no_more.scheduled_at + no_more.disruption + no_more.unschedulable, "");
}

TEST(Views, ReadTheMarkOfAPodThatHasToGo) {
  const auto with = [](const std::string& annotations) {
    return Project((R"({"metadata": {"name": "x", "annotations": )" + annotations + "}}").c_str());
  };

  EXPECT_EQ(with(R"({"ringmaster.dev/leaving": "ScalingDown"})").leaving, "ScalingDown");
  EXPECT_EQ(with(R"({"ringmaster.dev/leaving": ""})").leaving, "Draining");
  EXPECT_EQ(with(R"({"other": "x"})").leaving, "");
  EXPECT_EQ(with("null").leaving, "");
}

TEST(Views, ReadFromWhereANodesOwnProcessesConnect) {
  const auto node = ProjectNode(*ParseJson(R"({
    "metadata": {"name": "n"},
    "spec": {"podCIDRs": ["10.244.3.0/24", "fd00:3::/64", 7]},
    "status": {"addresses": [{"type": "Hostname", "address": "n"}, {"type": "InternalIP", "address": "192.168.0.3"},
                             {"type": "ExternalIP", "address": "203.0.113.3"}]}})"));

  ASSERT_TRUE(node.ok());
  EXPECT_EQ(node->addresses, (std::vector<std::string>{"10.244.3.0", "10.244.3.1", "192.168.0.3",
                                                       "203.0.113.3", "fd00:3::"}));
}

TEST(Views, ReadWhatANodeSaysOfItself) {
  struct Row {
    const char* node;
    bool ready;
    bool unschedulable;
    bool out_of_service;
  };
  const Row table[] = {
      {R"({"metadata": {"name": "n"}})", true, false, false},
      {R"({"metadata": {"name": "n"}, "status": {"conditions": [
          {"type": "MemoryPressure", "status": "False"}, {"type": "Ready", "status": "True"}]}})",
       true, false, false},
      {R"({"metadata": {"name": "n"}, "status": {"conditions": [
          {"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown"}]}})",
       false, false, false},
      {R"({"metadata": {"name": "n"}, "spec": {"unschedulable": true, "taints": [
          {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}]}})",
       true, true, false},
      {R"({"metadata": {"name": "n"}, "spec": {"taints": [
          {"key": "a"}, {"key": "node.kubernetes.io/out-of-service", "effect": "NoExecute"}]}})",
       true, false, true},
  };
  for (const Row& row : table) {
    const auto node = ProjectNode(*ParseJson(row.node));
    ASSERT_TRUE(node.ok()) << row.node;
    EXPECT_EQ(node->ready, row.ready) << row.node;
    EXPECT_EQ(node->unschedulable, row.unschedulable) << row.node;
    EXPECT_EQ(node->out_of_service, row.out_of_service) << row.node;
    EXPECT_EQ(node->not_ready_reason, row.ready ? "" : "NodeStatusUnknown") << row.node;
  }
}

TEST(Views, SurviveWhatIsMissingOrNull) {
  const PodView pod = Project(
      R"({"metadata": {"name": "x", "labels": null}, "status": {"containerStatuses": null}})");

  EXPECT_EQ(pod.role, Role::kOther);
  EXPECT_EQ(pod.index, -1);
  EXPECT_FALSE(ProjectPod(*ParseJson("[]")).ok());
}

}  // namespace
}  // namespace ringmaster::job
