#include "operator/job/manifests/removal_pod.h"

#include <initializer_list>
#include <string>

#include <nlohmann/json.hpp>

#include "common/control/pod_contract.h"
#include "operator/api/names.h"
#include "operator/job/admission/gpu_resources.h"
#include "operator/job/admission/template_policy.h"
#include "operator/job/manifests/manifests.h"
#include "operator/job/manifests/pod_parts.h"
#include "operator/job/manifests/pods.h"
#include "operator/kube/json_access.h"

namespace ringmaster::job {

using nlohmann::json;

namespace {

void CopyFields(const json* from, std::initializer_list<const char*> fields, json& to) {
  if (from == nullptr) return;
  for (const char* field : fields) {
    if (const json* value = kube::Find(*from, {field})) to[field] = *value;
  }
}

// Copies the workers' labels and annotations, which policies of the cluster may require.
void CopyMetadata(const json& user, json& metadata) {
  const std::string of_worker = std::string(kAppArmorOfContainer) + control::kWorkerContainer;
  for (const char* map : {"labels", "annotations"}) {
    const json* entries = kube::Find(user, {"metadata", map});
    if (entries == nullptr || !entries->is_object()) continue;
    for (const auto& [key, value] : entries->items()) {
      // The API server rejects a profile of a container that the Pod does not have.
      if (key.starts_with(kAppArmorOfContainer) && key != of_worker) continue;
      metadata[map][key] = value;
    }
  }
}

json ContainerOf(const api::TrainingJob& job, const json* of_worker) {
  const auto variable = [](const char* name, const std::string& value) {
    return json{{"name", name}, {"value", value}};
  };
  json container{
      {"name", control::kWorkerContainer},
      {"image", job.spec.image},
      {"command", {control::kAgentProgram, control::kRemoveCheckpointsFlag}},
      {"terminationMessagePolicy", "FallbackToLogsOnError"},
      {"resources",
       {{"requests", {{"cpu", "50m"}, {"memory", "32Mi"}}},
        {"limits", {{"cpu", "1"}, {"memory", "128Mi"}}}}},
      {"volumeMounts",
       json::array({{{"name", kCheckpointVolume}, {"mountPath", control::kCheckpointDir}}})}};
  container["env"] = {variable(control::kEnvNamespace, job.ns),
                      variable(control::kEnvJobName, job.name),
                      variable(control::kEnvJobUid, job.uid),
                      variable(control::kEnvCheckpointDir, control::kCheckpointDir),
                      // Hide the GPUs: GPU images request all of them from the container runtime.
                      variable(kVisibleGpus, kNoVisibleGpus)};
  CopyFields(of_worker, {"image", "imagePullPolicy"}, container);
  json& context = container["securityContext"] = json::object();
  if (of_worker != nullptr) {
    CopyFields(kube::Find(*of_worker, {"securityContext"}),
               {"runAsUser", "runAsGroup", "seLinuxOptions", "seccompProfile", "appArmorProfile"},
               context);
  }
  if (job.spec.worker.privileged) context["runAsUser"] = 0;  // like the workers
  context["readOnlyRootFilesystem"] = true;
  return container;
}

}  // namespace

// Uses the workers' user and groups, which own the files, and the workers' scheduling constraints,
// because some nodes may not be able to mount the volume. The user's image runs in the same sandbox
// as in the workers, because the job's profile may require it.
json RemovalPod(const JudgedJob& judged, const Injection& injection) {
  const api::TrainingJob& job = judged.job();
  const json user = ParseTemplate(job.spec.worker.template_json);
  const json* user_spec = kube::Find(user, {"spec"});
  json pod{{"apiVersion", "v1"},
           {"kind", "Pod"},
           {"metadata",
            {{"name", api::CleanUpPodName(job.name, job.uid)},
             {"namespace", job.ns},
             {"labels",
              {{api::kLabelManagedBy, api::kManagedBy},
               {api::kLabelJobName, job.name},
               {api::kLabelJobUid, job.uid},
               {api::kLabelRole, api::kRoleCleanUp}}}}}};
  CopyMetadata(user, pod["metadata"]);
  json& spec = pod["spec"] = {{"restartPolicy", "Never"},
                              {"automountServiceAccountToken", false},
                              {"enableServiceLinks", false},
                              {"activeDeadlineSeconds", kRemovalPodLimit.count()},
                              {"terminationGracePeriodSeconds", 1}};
  json& context = spec["securityContext"] = json::object();
  if (user_spec != nullptr) {
    CopyFields(user_spec,
               {"imagePullSecrets", "serviceAccountName", "nodeSelector", "tolerations",
                "priorityClassName", "runtimeClassName", "hostUsers"},
               spec);
    if (const json* nodes = kube::Find(*user_spec, {"affinity", "nodeAffinity"})) {
      spec["affinity"]["nodeAffinity"] = *nodes;
    }
    CopyFields(kube::Find(*user_spec, {"securityContext"}),
               {"runAsUser", "runAsGroup", "fsGroup", "fsGroupChangePolicy", "supplementalGroups",
                "seLinuxOptions", "seccompProfile", "appArmorProfile"},
               context);
  }
  spec["containers"] = json::array({ContainerOf(
      job, user_spec == nullptr ? nullptr : FindContainer(*user_spec, control::kWorkerContainer))});
  json volume = ParseTemplate(job.spec.checkpoint->volume_json);
  volume["name"] = kCheckpointVolume;
  spec["volumes"] = json::array({std::move(volume)});
  RestrictPod(spec);
  Inject(ToolsImageOf(injection, job.spec), job.spec.inject, spec, spec["containers"][0]);
  return pod;
}

}  // namespace ringmaster::job
