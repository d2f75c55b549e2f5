#include "operator/job/policy/start_advice.h"

#include <gtest/gtest.h>

namespace ringmaster::job {
namespace {

TEST(StartAdvice, ASchedulersReasonsAreShownWithoutItsAttempts) {
  EXPECT_EQ(WhyUnschedulable("0/3 nodes are available: 3 Insufficient nvidia.com/gpu. no new "
                             "claims to deallocate, preemption: 0/3 nodes are available: 3 "
                             "Preemption is not helpful for scheduling."),
            "0/3 nodes are available: 3 Insufficient nvidia.com/gpu");
  EXPECT_EQ(WhyUnschedulable("0/3 nodes are available: persistentvolumeclaim \"data\" not found. "
                             "not found"),
            "0/3 nodes are available: persistentvolumeclaim \"data\" not found");
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
  for (const auto& [said, advice] : {
           Row{"3 Insufficient nvidia.com/gpu, 1 node(s) had untolerated taint {a: b}",
               "; if no node has enough (kubectl describe nodes), lower worker.gpus or "
               "worker.resources, delete the job and apply it again; otherwise wait until enough "
               "is free"},
           Row{"0/3 nodes are available: 3 node(s) were unschedulable",
               "; uncordon a node (kubectl uncordon NODE), or add one"},
           Row{"0/3 nodes are available: persistentvolumeclaim \"data\" not found.",
               "; create the claim, or correct claimName in the job, delete the job and apply it "
               "again"},
           Row{"persistentvolumeclaim \"data\" is being deleted", ""},
           Row{"3 node(s) didn't match Pod's node affinity/selector",
               "; correct the Pods' nodeSelector, affinity or tolerations, or add such a node"},
           Row{"1 node(s) had untolerated taint {a: b}",
               "; correct the Pods' nodeSelector, affinity or tolerations, or add such a node"},
           Row{"1 node(s) had volume node affinity conflict", ""},
           Row{"no nodes available to schedule pods", ""},
       }) {
    EXPECT_EQ(HowToSchedule(said, Role::kWorker), advice) << said;
  }
  EXPECT_EQ(HowToSchedule("3 Insufficient cpu", Role::kLauncher),
            "; if no node has enough (kubectl describe nodes), lower resources.requests of "
            "container launcher in spec.launcher.template, delete the job and apply it again; "
            "otherwise wait until enough is free");
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
  for (const char* other : {"", "r.example.com/other:1"}) {
    EXPECT_EQ(HowToPull(waits, other).rfind("; spec.image does not name this image", 0), 0U);
  }
  waits.waiting_message = "pull QPS exceeded";
  EXPECT_EQ(HowToPull(waits, "r.example.com/train:1"), "");
  waits.waiting_reason = "CreateContainerError";
  EXPECT_EQ(HowToPull(waits, "r.example.com/train:1"), "");
}

TEST(StartAdvice, AMissingConfigMapOrSecretIsNamed) {
  EXPECT_EQ(HowToMount("FailedMount: configmap \"code\" not found"),
            "; create the ConfigMap, or correct its name in the job");
  EXPECT_EQ(HowToMount("secret \"keys\" not found"),
            "; create the Secret, or correct its name in the job");
  EXPECT_EQ(HowToMount("failed to sync configmap cache: timed out"), "");
  EXPECT_EQ(HowToMount("FailedMount: rpc error"), "");
}

TEST(StartAdvice, AnImageThatRunsAsRootMayBeGivenAUser) {
  EXPECT_EQ(HowToRun("container has runAsNonRoot and image will run as root"),
            "; the image runs as root, which the job's Pods may not: remove inject: None if the "
            "job has it, or set securityContext.runAsUser in spec.worker.template and "
            "spec.launcher.template");
  EXPECT_EQ(HowToRun("secret \"keys\" not found"), HowToMount("secret \"keys\" not found"));
}

}  // namespace
}  // namespace ringmaster::job
