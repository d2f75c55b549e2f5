#include "operator/job/admission/pod_policy.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace ringmaster::job {
namespace {

using nlohmann::json;

json Pod(const char* pointer = nullptr, const char* value = "null") {
  json pod = json::parse(R"({"spec": {"automountServiceAccountToken": false,
    "volumes": [{"name": "t", "emptyDir": {}}],
    "containers": [{"name": "worker", "volumeMounts": [{"name": "h", "mountPath": "/h", "readOnly": true, "recursiveReadOnly": "IfPossible"},
                                                       {"name": "flat", "mountPath": "/f", "readOnly": true},
                                                       {"name": "late", "mountPath": "/l", "readOnly": true, "recursiveReadOnly": "Enabled",
                                                        "mountPropagation": "HostToContainer"},
                                                       {"name": "rec", "mountPath": "/r", "recursiveReadOnly": "Enabled"},
                                                       {"name": "rw", "mountPath": "/rw"}],
                    "securityContext": {"allowPrivilegeEscalation": false}}]}})");
  if (pointer != nullptr) pod[json::json_pointer(pointer)] = json::parse(value);
  return pod;
}

TEST(PodPolicy, AFinishedPodHasOnlyTheRightsOfItsProfile) {
  const JobRules all{.host_network = true,
                     .privileged = true,
                     .root = true,
                     .service_accounts = {"trainer"},
                     .capabilities = {"IPC_LOCK"},
                     .schedulers = {"volcano"},
                     .host_paths = {"/data"}};
  const struct {
    const char* pointer;
    const char* value;
    bool can_be_allowed;
  } table[] = {
      {"/spec/hostPID", "true", false},
      {"/spec/hostIPC", "true", false},
      {"/spec/hostPID", R"("yes")", false},
      {"/spec/shareProcessNamespace", "true", false},
      {"/spec/nodeName", R"("n")", false},
      {"/spec/schedulerName", R"("s")", false},
      {"/spec/automountServiceAccountToken", "true", false},
      {"/spec/automountServiceAccountToken", "null", false},
      {"/spec/volumes/1", R"({"name": "h", "hostPath": {"path": "/"}})", false},
      {"/spec/volumes/1", R"({"name": "ringmaster-tools", "hostPath": {"path": "/"}})", false},
      {"/spec/volumes/1", R"({"name": "data", "image": {"reference": "data:1"}})", false},
      {"/spec/schedulerName", R"("volcano")", true},
      {"/spec/volumes/1", R"({"name": "h", "hostPath": {"path": "/data/faces"}})", true},
      {"/spec/volumes/1", R"({"name": "h", "hostPath": {"path": "/data/../etc"}})", false},
      {"/spec/volumes/1", R"({"name": "h", "hostPath": {"path": "/data", "type": "Socket"}})",
       false},
      {"/spec/volumes/1", R"({"name": "rw", "hostPath": {"path": "/data"}})", false},
      {"/spec/volumes/1", R"({"name": "rec", "hostPath": {"path": "/data"}})", false},
      {"/spec/volumes/1", R"({"name": "flat", "hostPath": {"path": "/data"}})", false},
      {"/spec/volumes/1", R"({"name": "late", "hostPath": {"path": "/data"}})", false},
      {"/spec/containers/0/ports/0", R"({"hostPort": 22})", false},
      {"/spec/containers/0/securityContext/procMount", R"("Unmasked")", false},
      {"/spec/containers/0/securityContext/capabilities/add/0", R"("SYS_ADMIN")", false},
      {"/spec/containers/0/securityContext/capabilities/add/0", "7", false},
      {"/spec/serviceAccountName", R"("other")", false},
      {"/spec/serviceAccountName", R"("trainer")", true},
      {"/spec/hostNetwork", "true", true},
      {"/spec/securityContext/runAsUser", "0", true},
      {"/spec/containers/0/securityContext/runAsUser", "0", true},
      {"/spec/containers/0/securityContext/privileged", "true", true},
      {"/spec/containers/0/securityContext/allowPrivilegeEscalation", "true", true},
      {"/spec/initContainers/0/securityContext/privileged", "true", true},
      {"/spec/containers/0/securityContext/capabilities/add/0", R"("IPC_LOCK")", true},
      {"/spec/containers/0/securityContext/capabilities/add/0", R"("SYS_CHROOT")", true},
  };
  EXPECT_TRUE(CheckPod(Pod(), {}).empty());
  EXPECT_TRUE(CheckPod(Pod("/spec/containers/0/ports/0", R"({"hostPort": 0})"), {}).empty());
  for (const auto& [pointer, value, can_be_allowed] : table) {
    const json pod = Pod(pointer, value);
    const auto found = CheckPod(pod, {});
    ASSERT_EQ(found.size(), 1U) << pointer << " = " << value;
    EXPECT_TRUE(found[0].by_policy);
    EXPECT_EQ(CheckPod(pod, all).empty(), can_be_allowed) << pointer << " = " << value;
  }
}

TEST(PodPolicy, WhereGpusAreCountedEachContainerSaysThatItSeesNoneOrAsksForThem) {
  const JobRules counted{.max_gpus = 8};
  const struct {
    const char* fields;
    bool allowed;
  } table[] = {
      {R"({})", false},
      {R"({"env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}]})", true},
      {R"({"env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]})", false},
      {R"({"env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"},
                   {"name": "NVIDIA_VISIBLE_DEVICES", "value": "0"}]})",
       false},
      {R"({"resources": {"limits": {"nvidia.com/gpu": 1}}})", true},
      {R"({"resources": {"limits": {"nvidia.com/gpu": 0}}})", false},
      {R"({"resources": {"limits": {"rdma/hca": 1}}})", false},
      {R"({"resources": {"claims": [{"name": "gpu"}]}})", true},
      {R"({"resources": {"limits": {"nvidia.com/gpu": 1}},
           "env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]})",
       false},
      {R"({"resources": {"limits": {"nvidia.com/gpu": 1}}, "envFrom": [{}]})", false},
      {R"({"resources": {"limits": {"nvidia.com/gpu": 1}}, "envFrom": [{"prefix": "A"}]})", true},
      {R"({"env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}], "envFrom": [{}]})", true},
  };
  for (const auto& [fields, allowed] : table) {
    json pod = Pod();
    pod["spec"]["containers"][0].update(json::parse(fields));
    EXPECT_EQ(CheckPod(pod, counted).empty(), allowed) << fields;
    EXPECT_TRUE(CheckPod(pod, {}).empty()) << fields;
  }
}

}  // namespace
}  // namespace ringmaster::job
