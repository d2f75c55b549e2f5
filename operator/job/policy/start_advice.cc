#include "operator/job/policy/start_advice.h"

#include <string_view>

#include "operator/job/policy/image_policy.h"

namespace ringmaster::job {

namespace {

bool Contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

}  // namespace

std::string WhyUnschedulable(const std::string& scheduler_message) {
  constexpr std::string_view kCounted = " nodes are available: ";
  const std::size_t counted = scheduler_message.find(kCounted);
  if (counted == std::string::npos) return scheduler_message;
  const std::size_t end = scheduler_message.find(". ", counted + kCounted.size());
  std::string why = scheduler_message.substr(0, end);
  if (why.ends_with('.')) why.pop_back();
  return why;
}

std::string HowToSchedule(const std::string& scheduler_message, Role role) {
  if (Contains(scheduler_message, "persistentvolumeclaim \"") &&
      Contains(scheduler_message, "not found")) {
    return "; create the claim, or correct claimName in the job, delete the job and apply it again";
  }
  if (Contains(scheduler_message, "Insufficient ")) {
    const std::string requests = role == Role::kLauncher
                                     ? "resources.requests of container launcher in "
                                       "spec.launcher.template"
                                     : "worker.gpus or worker.resources";
    return "; if no node has enough (kubectl describe nodes), lower " + requests +
           ", delete the job and apply it again; otherwise wait until enough is free";
  }
  if (Contains(scheduler_message, "node(s) were unschedulable"))
    return "; uncordon a node (kubectl uncordon NODE), or add one";
  const bool volumes = Contains(scheduler_message, "volume node affinity conflict");
  const bool nodes =
      Contains(scheduler_message, "affinity") || Contains(scheduler_message, "taint");
  if (nodes && !volumes) {
    return "; correct the Pods' nodeSelector, affinity or tolerations, or add such a node";
  }
  return "";
}

std::string HowToPull(const ContainerView& container, const std::string& spec_image) {
  if (!WaitsForImage(container)) return "";
  if (!Contains(container.waiting_message, "image \"")) return "";  // the image is unknown
  if (!spec_image.empty() && Contains(container.waiting_message, spec_image)) {
    if (Contains(container.waiting_message, "dial tcp")) {
      return "; the node cannot reach the registry: correct spec.image, delete the job and apply "
             "it again, or ask the platform team why the registry cannot be reached";
    }
    return "; correct spec.image, or name a Secret with the registry's credentials in "
           "spec.imagePullSecrets, then delete the job and apply it again";
  }
  return "; spec.image does not name this image: correct the template that does, or ask the "
         "platform team for Ringmaster's images";
}

std::string HowToRun(const std::string& kubelet_message) {
  if (!Contains(kubelet_message, "runAsNonRoot")) return HowToMount(kubelet_message);
  return "; the image runs as root, which the job's Pods may not: remove inject: None if the job "
         "has "
         "it, or set securityContext.runAsUser in spec.worker.template and spec.launcher.template";
}

std::string HowToMount(const std::string& kubelet_message) {
  if (!Contains(kubelet_message, "not found")) return "";
  if (Contains(kubelet_message, "configmap \"")) {
    return "; create the ConfigMap, or correct its name in the job";
  }
  if (Contains(kubelet_message, "secret \"")) {
    return "; create the Secret, or correct its name in the job";
  }
  return "";
}

}  // namespace ringmaster::job
