#include "operator/job/model/views.h"

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
                 "labels": {"ringmaster.dev/role": "launcher", "ringmaster.dev/term": "2"},
                 "annotations": {"ringmaster.dev/seed-id": "s1"},
                 "ownerReferences": [{"kind": "TrainingJob", "name": "d", "uid": "o", "controller": true}]},
    "spec": {"nodeName": "n"},
    "status": {"phase": "Failed", "podIP": "10.0.0.1", "containerStatuses": [
      {"name": "side", "state": {"terminated": {"exitCode": 9}}},
      {"name": "launcher", "state": {"terminated": {"exitCode": 1, "reason": "Error", "message": "m",
                                                    "finishedAt": "2026-01-01T00:01:00Z"}}}]}})");

  EXPECT_EQ(pod.role, Role::kLauncher);
  EXPECT_EQ(pod.term, 2);
  EXPECT_EQ(pod.seed_id, "s1");
  EXPECT_EQ(pod.owner_uid, "o");
  EXPECT_EQ(pod.phase, PodPhase::kFailed);
  EXPECT_TRUE(pod.container.terminated);
  EXPECT_EQ(pod.container.exit_code, 1);
  EXPECT_EQ(pod.container.ended_message, "m");
  EXPECT_EQ(pod.ip, "10.0.0.1");
  EXPECT_EQ(pod.node, "n");
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
  EXPECT_EQ(no_more.scheduled_at + no_more.disruption, "");
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
