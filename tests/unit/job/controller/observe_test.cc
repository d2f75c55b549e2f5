#include "operator/job/controller/observe.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "operator/kube/object_meta.h"
#include "tests/builders/job_builder.h"

namespace ringmaster::job {
namespace {

using nlohmann::json;
using ringmaster::testing::JobBuilder;
using ringmaster::testing::kJobUid;

// Stores that a test fills as the reflector would.
struct Cluster {
  PodStore pods{ProjectPod};
  ServiceStore services{ProjectService};
  NodeStore nodes{ProjectNode};

  Observed See(const api::TrainingJob& job, const std::set<std::string>& taken = {}) const {
    return Observe(job, {.pods = pods, .services = services, .nodes = nodes}, "", taken);
  }

  template <typename Store>
  static void Put(Store& store, const json& object) {
    ASSERT_TRUE(store.Apply(object, *kube::ReadObjectMeta(object)).ok());
  }
};

json Object(const std::string& name, const std::string& owner_uid) {
  return {{"metadata",
           {{"name", name},
            {"namespace", "team-a"},
            {"uid", "uid-" + name + owner_uid},
            {"resourceVersion", "1"},
            {"ownerReferences", json::array({{{"kind", "TrainingJob"},
                                              {"name", "digits"},
                                              {"uid", owner_uid},
                                              {"controller", true}}})}}}};
}

json Worker(int index, const std::string& owner_uid = kJobUid, const char* phase = "Running") {
  json pod = Object(api::WorkerPodName("digits", index), owner_uid);
  pod["metadata"]["labels"] = {{api::kLabelRole, api::kRoleWorker},
                               {api::kLabelIndex, std::to_string(index)}};
  pod["status"]["phase"] = phase;
  return pod;
}

json Launcher(int64_t term, const std::string& owner_uid = kJobUid) {
  json pod = Object(api::LauncherPodName("digits", term), owner_uid);
  pod["metadata"]["labels"] = {{api::kLabelRole, api::kRoleLauncher},
                               {api::kLabelTerm, std::to_string(term)}};
  return pod;
}

// Anyone who may write Pods in another namespace can set any owner's UID in them.
TEST(Observe, PodsOfAnotherNamespaceAreNoneOfTheJobs) {
  Cluster cluster;
  for (json pod : {Worker(0), Launcher(1), Launcher(2)}) {
    pod["metadata"]["namespace"] = "team-b";
    Cluster::Put(cluster.pods, pod);
  }

  const Observed seen = cluster.See(JobBuilder().Term(2).Build());

  EXPECT_TRUE(seen.live.empty());
  EXPECT_EQ(seen.launcher, nullptr);
  EXPECT_TRUE(seen.old_launchers.empty());
}

TEST(Observe, SortsChildrenIntoBuckets) {
  Cluster cluster;
  for (int index : {11, 2, 0}) Cluster::Put(cluster.pods, Worker(index));
  Cluster::Put(cluster.pods, Worker(3, kJobUid, "Failed"));
  Cluster::Put(cluster.pods, Worker(4, kJobUid, "Succeeded"));
  json leaving = Worker(5);
  leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z";
  Cluster::Put(cluster.pods, leaving);
  Cluster::Put(cluster.pods, Launcher(2));
  Cluster::Put(cluster.pods, Launcher(1));

  const Observed seen = cluster.See(JobBuilder().Term(2).Build());

  ASSERT_EQ(seen.live.size(), 3u);
  EXPECT_EQ(seen.live[0]->index, 0);
  EXPECT_EQ(seen.live[2]->index, 11);
  EXPECT_EQ(seen.failed.size(), 1u);
  EXPECT_EQ(seen.completed.size(), 1u);
  EXPECT_EQ(seen.deleting.size(), 1u);
  ASSERT_NE(seen.launcher, nullptr);
  EXPECT_EQ(seen.launcher->term, 2);
  EXPECT_EQ(seen.old_launchers.size(), 1u);
  EXPECT_EQ(seen.FreeIndices(3), (std::vector<int>{1, 6, 7}));
}

json Terminated(json pod, int exit_code) {
  pod["status"]["containerStatuses"] =
      json::array({{{"name", "worker"}, {"state", {{"terminated", {{"exitCode", exit_code}}}}}}});
  return pod;
}

TEST(Observe, AWorkerEndsWithItsManagedContainer) {
  struct Row {
    const char* why;
    json pod;
    std::vector<PodPtr> Observed::*bucket;
  };
  json evicted = Terminated(Worker(0, kJobUid, "Failed"), 0);
  evicted["status"]["reason"] = "Evicted";
  const Row table[] = {
      {"a sidecar runs on, success", Terminated(Worker(0), 0), &Observed::completed},
      {"a sidecar runs on, failure", Terminated(Worker(0), 1), &Observed::failed},
      {"a sidecar failed", Terminated(Worker(0, kJobUid, "Failed"), 0), &Observed::completed},
      {"evicted", evicted, &Observed::failed},
      {"it runs", Worker(0), &Observed::live},
  };
  for (const Row& row : table) {
    Cluster cluster;
    Cluster::Put(cluster.pods, row.pod);

    const Observed seen = cluster.See(JobBuilder().Build());

    EXPECT_EQ((seen.*row.bucket).size(), 1u) << row.why;
  }
}

TEST(Observe, PredecessorsChildrenOnlyTakeNames) {
  Cluster cluster;
  Cluster::Put(cluster.pods, Worker(0, "old-uid"));
  Cluster::Put(cluster.pods, Launcher(1, "old-uid"));
  Cluster::Put(cluster.services, Object("digits", "old-uid"));

  const Observed seen = cluster.See(JobBuilder().Build(), {"digits-worker-2"});

  EXPECT_TRUE(seen.live.empty());
  EXPECT_EQ(seen.launcher, nullptr);
  EXPECT_EQ(seen.next_term, 2);
  EXPECT_EQ(seen.FreeIndices(3), (std::vector<int>{1, 3, 4}));
  EXPECT_EQ(seen.worker_service, nullptr);
}

// The plan uses the observed objects, even if the store has changed since. This does no harm,
// because creating a worker that already exists returns that worker.
TEST(Observe, AWorkerThatShowsUpLaterLeavesItsIndexFree) {
  Cluster cluster;
  const Observed seen = cluster.See(JobBuilder().Build());

  Cluster::Put(cluster.pods, Worker(0));
  Cluster::Put(cluster.pods, Worker(1, "old-uid"));

  EXPECT_EQ(seen.FreeIndices(2), (std::vector<int>{0, 2}));
}

json Node(const std::string& name, const char* ready) {
  return {
      {"metadata", {{"name", name}, {"uid", "uid-" + name}, {"resourceVersion", "1"}}},
      {"status",
       {{"conditions",
         json::array({{{"type", "Ready"}, {"status", ready}, {"reason", "NodeStatusUnknown"}}})}}}};
}

TEST(Observe, LooksAtTheNodesOfItsPods) {
  Cluster cluster;
  for (int index : {0, 1}) {
    json worker = Worker(index);
    worker["spec"]["nodeName"] = "node-" + std::to_string(index);
    Cluster::Put(cluster.pods, worker);
  }
  Cluster::Put(cluster.nodes, Node("node-0", "True"));
  Cluster::Put(cluster.nodes, Node("elsewhere", "Unknown"));

  const Observed quiet = cluster.See(JobBuilder().Build());
  Cluster::Put(cluster.nodes, Node("node-0", "Unknown"));
  const Observed trouble = cluster.See(JobBuilder().Build());

  EXPECT_FALSE(quiet.nodes.known) << "the first list is not in";
  ASSERT_EQ(quiet.nodes.of_job.size(), 1u);
  EXPECT_TRUE(quiet.nodes.of_job.at("node-0")->ready);
  EXPECT_EQ(quiet.nodes.total, 0) << "counted in trouble only";
  EXPECT_FALSE(trouble.nodes.of_job.at("node-0")->ready);
  EXPECT_EQ(trouble.nodes.not_ready, 2);
  EXPECT_EQ(trouble.nodes.total, 2);
}

TEST(Observe, FindsHowMuchTheLargestNodeHasOfWhatAPodDoesNotGet) {
  Cluster cluster;
  for (const auto& [name, gpus] : {std::pair{"node-0", "2"}, {"node-1", "8"}, {"node-2", "4"}}) {
    json node = Node(name, name == std::string("node-0") ? "Unknown" : "True");
    node["status"]["allocatable"] = {{"cpu", "64"}, {"nvidia.com/gpu", gpus}};
    Cluster::Put(cluster.nodes, node);
  }
  json worker = Worker(0, kJobUid, "Pending");
  Cluster::Put(cluster.pods, worker);

  const Observed waits = cluster.See(JobBuilder().Build());
  worker["status"]["conditions"] = {
      {{"type", "PodScheduled"}, {"status", "False"}, {"reason", "Unschedulable"}}};
  Cluster::Put(cluster.pods, worker);
  const Observed cannot = cluster.See(JobBuilder().Build());

  EXPECT_TRUE(waits.nodes.largest.empty()) << "set only for a Pod that cannot be scheduled";
  EXPECT_EQ(cannot.nodes.largest, (std::map<std::string, int64_t>{{"nvidia.com/gpu", 8}}));
  EXPECT_EQ(cannot.nodes.total, 0) << "no node of the job is in trouble";
}

TEST(Observe, FindsItsServices) {
  Cluster cluster;
  json service = Object("digits-launcher", kJobUid);
  service["spec"] = {{"clusterIP", "10.0.0.1"}, {"selector", {{api::kLabelTerm, "3"}}}};
  service["metadata"]["annotations"] = {{api::kAnnotationSeedId, "s1"}};
  Cluster::Put(cluster.services, service);

  const Observed seen = cluster.See(JobBuilder().Build());

  ASSERT_NE(seen.launcher_service, nullptr);
  EXPECT_EQ(seen.launcher_service->cluster_ip, "10.0.0.1");
  EXPECT_EQ(seen.launcher_service->seed_id, "s1");
  EXPECT_EQ(seen.launcher_service->term, 3);
}

}  // namespace
}  // namespace ringmaster::job
