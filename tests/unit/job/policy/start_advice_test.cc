#include "operator/job/policy/start_advice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/builders/job_builder.h"

namespace ringmaster::job {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

PodView Unscheduled(const std::string& said) {
  PodView pod;
  pod.role = Role::kWorker;
  pod.unschedulable = said;
  return pod;
}

TEST(StartAdvice, ASchedulersReasonsAreShownWithoutItsAttempts) {
  EXPECT_EQ(WhyUnschedulable("0/3 nodes are available: 3 Insufficient nvidia.com/gpu. no new "
                             "claims to deallocate, preemption: 0/3 nodes are available: 3 "
                             "Preemption is not helpful for scheduling."),
            "0/3 nodes are available: 3 Insufficient nvidia.com/gpu");
  EXPECT_EQ(WhyUnschedulable("0/3 nodes are available: persistentvolumeclaim \"data\" not found. "
                             "not found"),
            "persistentvolumeclaim \"data\" not found");
  EXPECT_EQ(WhyUnschedulable("0/3 nodes are available: 1 Too many pods."),
            "0/3 nodes are available: 1 Too many pods");
  EXPECT_EQ(WhyUnschedulable("waits for its gang. 3 of 4 exist."),
            "waits for its gang. 3 of 4 exist.");
}

TEST(StartAdvice, WhatTheSchedulerMissesDecidesWhatHelps) {
  struct Row {
    const char* said;
    const char* advice;
  };
  const api::TrainingJob job = ringmaster::testing::JobBuilder().Build();
  NodesSeen nodes;
  nodes.known = true;
  for (const auto& [said, advice] : {
           Row{"3 Insufficient nvidia.com/gpu, 1 node(s) had untolerated taint {a: b}",
               "; the Pod requests nvidia.com/gpu, and no node has any: ask the platform team for "
               "nodes that have it, or remove spec.worker.gpus, delete the job and apply it again"},
           Row{"0/3 nodes are available: 3 node(s) were unschedulable",
               "; uncordon a node (kubectl uncordon NODE), or add one"},
           Row{"0/3 nodes are available: persistentvolumeclaim \"data\" not found.",
               "; create the PersistentVolumeClaim in namespace team-a, and the job continues; or "
               "correct claimName in the job, delete the job and apply it again"},
           Row{"persistentvolumeclaim \"data\" is being deleted", ""},
           Row{"3 node(s) didn't match Pod's node affinity/selector",
               "; correct the Pods' nodeSelector, affinity or tolerations, or add such a node"},
           Row{"1 node(s) had untolerated taint {a: b}",
               "; correct the Pods' nodeSelector, affinity or tolerations, or add such a node"},
           Row{"1 node(s) had volume node affinity conflict", ""},
           Row{"no nodes available to schedule pods", ""},
       }) {
    EXPECT_EQ(HowToSchedule(Unscheduled(said), nodes, job), advice) << said;
  }
}

TEST(StartAdvice, ARequestIsComparedWithWhatTheLargestNodeHas) {
  const std::string unknown =
      ": ask the platform team how much the largest node has (kubectl describe nodes shows it); if "
      "that is less, lower ";
  struct Row {
    const char* resource;
    const char* amount;
    int64_t largest;
    std::string advice;
  };
  const api::TrainingJob job = ringmaster::testing::JobBuilder().Build();
  for (const auto& [resource, amount, largest, advice] : {
           Row{"nvidia.com/gpu", "64", 8,
               ", and the largest node has 8: lower spec.worker.gpus, delete the job and apply it "
               "again"},
           Row{"nvidia.com/gpu", "8", 8,
               ", and the largest node has 8: wait until enough is free, or lower "
               "spec.worker.gpus, delete the job and apply it again"},
           Row{"nvidia.com/gpu", "1k", 8,
               ", and the largest node has 8: lower spec.worker.gpus, delete the job and apply it "
               "again"},
           Row{"nvidia.com/gpu", "8", 0,
               ", and no node has any: ask the platform team for nodes that have it, or remove "
               "spec.worker.gpus, delete the job and apply it again"},
           Row{"amd.com/gpu", "8", 0,
               ", and no node has any: ask the platform team for nodes that have it, or lower "
               "spec.worker.resources, delete the job and apply it again"},
           Row{"memory", "400Gi", 8,
               unknown + "spec.worker.resources, delete the job and apply it again; otherwise wait "
                         "until enough is free"},
       }) {
    PodView pod = Unscheduled(std::string("3 Insufficient ") + resource + ".");
    pod.request = {"worker", amount};
    NodesSeen nodes;
    nodes.known = true;
    if (largest > 0) nodes.largest[resource] = largest;
    EXPECT_EQ(HowToSchedule(pod, nodes, job),
              "; container worker requests " + std::string(amount) + " " + resource + advice);
  }

  PodView launcher = Unscheduled("3 Insufficient nvidia.com/gpu");
  launcher.role = Role::kLauncher;
  EXPECT_EQ(HowToSchedule(launcher, {}, job),
            "; the Pod requests nvidia.com/gpu" + unknown +
                "resources.requests of container launcher in spec.launcher.template, delete the "
                "job and apply it again; otherwise wait until enough is free")
      << "Nodes that cannot be watched are unknown";
}

TEST(StartAdvice, GpusOfAnotherResourceAreLoweredInTheSameField) {
  api::TrainingJob job = ringmaster::testing::JobBuilder().Build();
  job.spec.worker.gpu_resource = "amd.com/gpu";
  EXPECT_THAT(HowToSchedule(Unscheduled("3 Insufficient amd.com/gpu"), {}, job),
              HasSubstr("lower spec.worker.gpus"));
  EXPECT_THAT(HowToSchedule(Unscheduled("3 Insufficient nvidia.com/gpu"), {}, job),
              HasSubstr("lower spec.worker.resources"));
}

TEST(StartAdvice, AnImageThatCannotBePulledIsNamedOnceWithTheCause) {
  struct Row {
    const char* reason;
    const char* said;
    const char* why;
  };
  for (const auto& [reason, said, why] : {
           Row{"ImagePullBackOff",
               "Back-off pulling image \"r.invalid/x:1\": ErrImagePull: failed to pull and unpack "
               "image \"r.invalid/x:1\": failed to resolve reference \"r.invalid/x:1\": failed to "
               "do request: Head \"https://r.invalid/v2/x/manifests/1\": dial tcp: lookup "
               "r.invalid on 10.0.0.10:53: read udp 10.0.0.7:51265->10.0.0.10:53: i/o timeout",
               "cannot pull image \"r.invalid/x:1\": dial tcp: lookup r.invalid on 10.0.0.10:53: "
               "i/o timeout"},
           Row{"ErrImagePull",
               "rpc error: code = NotFound desc = failed to pull and unpack image \"r/x:1\": "
               "failed "
               "to resolve reference \"r/x:1\": r/x:1: not found",
               "cannot pull image \"r/x:1\": not found"},
           Row{"ErrImagePull", "failed to resolve reference \"r/x:1",
               "does not start: failed to resolve reference \"r/x:1"},
           Row{"ImagePullBackOff", "Back-off pulling image \"r/x:1\"",
               "does not start: Back-off pulling image \"r/x:1\""},
           Row{"CreateContainerError", "failed to resolve reference \"a\": b",
               "does not start: failed to resolve reference \"a\": b"},
       }) {
    ContainerView waits;
    waits.waiting_reason = reason;
    waits.waiting_message = said;
    EXPECT_EQ(WhyNotStarted(waits), why) << said;
  }
}

TEST(StartAdvice, AnImageThatTheSpecNamesIsCorrectedThere) {
  ContainerView waits;
  waits.waiting_reason = "ImagePullBackOff";
  waits.waiting_message = "Back-off pulling image \"r.example.com/train:1\"";

  EXPECT_EQ(HowToPull(waits, "r.example.com/train:1"),
            "; correct spec.image, or name a Secret with the registry's credentials in "
            "spec.imagePullSecrets, then delete the job and apply it again");
  ContainerView unreachable = waits;
  unreachable.waiting_message += ": dial tcp: lookup r.example.com: i/o timeout";
  EXPECT_EQ(HowToPull(unreachable, "r.example.com/train:1"),
            "; the node cannot reach the registry: correct spec.image, delete the job and apply it "
            "again, or ask the platform team why the registry cannot be reached");
  ContainerView missing = waits;
  missing.waiting_message += ": r.example.com/train:1: not found";
  EXPECT_EQ(HowToPull(missing, "r.example.com/train:1"),
            "; correct spec.image, delete the job and apply it again");
  for (const char* other : {"", "r.example.com/other:1"}) {
    EXPECT_EQ(HowToPull(waits, other).rfind("; spec.image does not name this image", 0), 0U);
  }
  waits.waiting_message = "pull QPS exceeded";
  EXPECT_EQ(HowToPull(waits, "r.example.com/train:1"), "");
  waits.waiting_reason = "CreateContainerError";
  EXPECT_EQ(HowToPull(waits, "r.example.com/train:1"), "");
}

TEST(StartAdvice, OnlyAnImageOfRootIsCalledOne) {
  EXPECT_THAT(WhyNotCreated("container has runAsNonRoot and image will run as root (pod: \"p\")"),
              StartsWith("its image runs as root, and the job's Pods may not run as root; "));
  EXPECT_EQ(
      WhyNotCreated("container has runAsNonRoot and image has non-numeric user (nobody), "
                    "cannot verify user is non-root"),
      "container has runAsNonRoot and image has non-numeric user (nobody), cannot verify user "
      "is non-root; set securityContext.runAsUser, a number, in spec.worker.template and "
      "spec.launcher.template");
  EXPECT_EQ(WhyNotCreated("container's runAsUser breaks non-root policy"),
            "container's runAsUser breaks non-root policy");
}

TEST(StartAdvice, AMissingConfigMapOrSecretIsNamed) {
  EXPECT_EQ(
      HowToMount("FailedMount: configmap \"code\" not found", "team-a"),
      "; create the ConfigMap in namespace team-a, and the job continues; or correct its name "
      "in the job, delete the job and apply it again");
  EXPECT_THAT(HowToMount("secret \"keys\" not found", "team-a"), HasSubstr("create the Secret in"));
  EXPECT_EQ(HowToMount("failed to sync configmap cache: timed out", "team-a"), "");
  EXPECT_EQ(HowToMount("FailedMount: rpc error", "team-a"), "");
  EXPECT_EQ(WhyNotCreated("secret \"keys\" not found"),
            "secret \"keys\" not found; create the Secret, or correct its name in the job");
  EXPECT_EQ(WhyNotCreated("no such device"), "no such device");
}

}  // namespace
}  // namespace ringmaster::job
