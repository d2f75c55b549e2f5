#include "operator/job/policy/start_advice.h"

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string_view>

#include <nlohmann/json.hpp>

#include "operator/job/policy/image_policy.h"
#include "operator/kube/json_access.h"

namespace ringmaster::job {

namespace {

constexpr char kGpusField[] = "spec.worker.gpus";

bool Contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

bool ContainsAny(std::string_view text, std::initializer_list<std::string_view> parts) {
  return std::any_of(parts.begin(), parts.end(),
                     [&](std::string_view part) { return Contains(text, part); });
}

// Removes `part` and all text up to and including the `end` after it, if the text contains both.
void Remove(std::string& text, std::string_view part, std::string_view end) {
  const std::size_t from = text.find(part);
  if (from == std::string::npos) return;
  const std::size_t to = text.find(end, from + part.size());
  if (to != std::string::npos) text.erase(from, to + end.size() - from);
}

// Returns the kind of the object that the message misses; empty: none.
std::string_view MissingObject(std::string_view message) {
  if (!Contains(message, "not found")) return {};
  if (Contains(message, "configmap \"")) return "ConfigMap";
  return Contains(message, "secret \"") ? "Secret" : "";
}

std::string CreateOrCorrect(std::string_view kind, const std::string& ns, const char* name) {
  return "; create the " + std::string(kind) + " in namespace " + ns +
         ", and the job continues; or correct " + name +
         " in the job, delete the job and apply it again";
}

// Returns "container worker requests 8 nvidia.com/gpu".
std::string RequestOf(const std::string& resource, const PodView& pod) {
  if (!pod.request) return "the Pod requests " + resource;
  return "container " + pod.request->container + " requests " + pod.request->amount + " " +
         resource;
}

std::string FieldOf(const std::string& resource, const api::WorkerSpec& worker, Role role) {
  if (role == Role::kLauncher) {
    return "resources.requests of container launcher in spec.launcher.template";
  }
  const std::string gpu = worker.gpu_resource.empty() ? api::kGpuResource : worker.gpu_resource;
  return resource == gpu ? kGpusField : "spec.worker.resources";
}

// Returns the advice for a resource of which no node has enough. Nodes are known to have extended
// resources; how much CPU and memory they have is not read.
std::string HowToFit(const PodView& pod, const NodesSeen& nodes, const api::WorkerSpec& worker) {
  const std::string resource = InsufficientResource(pod.unschedulable);
  constexpr char kAgain[] = ", delete the job and apply it again";
  const std::string field = FieldOf(resource, worker, pod.role);
  const std::string request = "; " + RequestOf(resource, pod);
  if (!nodes.known || !Contains(resource, "/")) {
    return request +
           ": ask the platform team how much the largest node has (kubectl describe nodes shows "
           "it); if that is less, lower " +
           field + kAgain + "; otherwise wait until enough is free";
  }

  const auto found = nodes.largest.find(resource);
  const int64_t largest = found == nodes.largest.end() ? 0 : found->second;
  if (largest == 0) {
    return request + ", and no node has any: ask the platform team for nodes that have it, or " +
           (field == kGpusField ? "remove " : "lower ") + field + kAgain;
  }
  const std::string has = ", and the largest node has " + std::to_string(largest) + ": ";
  const auto amount = pod.request ? kube::ReadWholeQuantity(pod.request->amount) : std::nullopt;
  const bool fits = amount.has_value() && *amount <= largest;
  return request + has + (fits ? "wait until enough is free, or lower " : "lower ") + field +
         kAgain;
}

}  // namespace

std::string WhyUnschedulable(const std::string& scheduler_message) {
  constexpr std::string_view kCounted = " nodes are available: ";
  const std::size_t counted = scheduler_message.find(kCounted);
  if (counted == std::string::npos) return scheduler_message;
  const std::size_t begin = counted + kCounted.size();
  const std::size_t end = scheduler_message.find(". ", begin);
  // The lack of a claim does not depend on the nodes.
  const bool claim =
      std::string_view(scheduler_message).substr(begin).starts_with("persistentvolumeclaim ");
  std::string why = scheduler_message.substr(0, end);
  if (claim) why.erase(0, begin);
  if (why.ends_with('.')) why.pop_back();
  return why;
}

std::string WhyNotStarted(const ContainerView& container) {
  constexpr std::string_view kResolve = "failed to resolve reference \"";
  const std::string& message = container.waiting_message;
  const std::size_t resolve = message.find(kResolve);
  const std::size_t begin = resolve + kResolve.size();
  const std::size_t end = resolve == std::string::npos ? resolve : message.find("\": ", begin);
  if (!IsImageWait(container.waiting_reason) || end == std::string::npos) {
    return "does not start: " + message;
  }

  const std::string image = message.substr(begin, end - begin);
  std::string why = message.substr(end + 3);
  if (why.starts_with(image + ": ")) why.erase(0, image.size() + 2);
  Remove(why, "failed to do request: ", "\": ");
  if (Contains(why, "->")) Remove(why, "read udp ", ": ");
  if (Contains(why, "->")) Remove(why, "read tcp ", ": ");
  return "cannot pull image \"" + image + "\": " + why;
}

std::string HowToSchedule(const PodView& pod, const NodesSeen& nodes, const api::TrainingJob& job) {
  const std::string& scheduler_message = pod.unschedulable;
  if (Contains(scheduler_message, "persistentvolumeclaim \"") &&
      Contains(scheduler_message, "not found")) {
    return CreateOrCorrect("PersistentVolumeClaim", job.ns, "claimName");
  }
  if (Contains(scheduler_message, "Insufficient ")) {
    return HowToFit(pod, nodes, job.spec.worker);
  }
  if (Contains(scheduler_message, "node(s) were unschedulable"))
    return "; uncordon a node (kubectl uncordon NODE), or add one";
  const bool volumes = Contains(scheduler_message, "volume node affinity conflict");
  if (ContainsAny(scheduler_message, {"affinity", "taint"}) && !volumes) {
    return "; correct the Pods' nodeSelector, affinity or tolerations, or add such a node";
  }
  return "";
}

std::string HowToPull(const ContainerView& container, const std::string& spec_image) {
  const std::string& message = container.waiting_message;
  if (!IsImageWait(container.waiting_reason)) return "";
  if (!Contains(message, "image \"")) return "";  // the image is unknown
  if (spec_image.empty() || !Contains(message, spec_image)) {
    return "; spec.image does not name this image: correct the template that does, or ask the "
           "platform team for Ringmaster's images";
  }
  if (Contains(message, "dial tcp")) {
    return "; the node cannot reach the registry: correct spec.image, delete the job and apply "
           "it again, or ask the platform team why the registry cannot be reached";
  }
  if (Contains(message, "not found") && !Contains(message, "denied")) {
    return "; correct spec.image, delete the job and apply it again";
  }
  return "; correct spec.image, or name a Secret with the registry's credentials in "
         "spec.imagePullSecrets, then delete the job and apply it again";
}

std::string HowToMount(const std::string& kubelet_message, const std::string& ns) {
  const std::string_view kind = MissingObject(kubelet_message);
  return kind.empty() ? "" : CreateOrCorrect(kind, ns, "its name");
}

std::string WhyNotCreated(const std::string& kubelet_message) {
  // The kubelet's message does not say that Ringmaster sets runAsNonRoot.
  if (Contains(kubelet_message, "image will run as root")) {
    return "its image runs as root, and the job's Pods may not run as root; if spec.inject is "
           "None, remove it, so that Ringmaster adds its programs, which this image may lack, and "
           "runs the Pods as user 1000; if the image is built from ringmaster-worker, set "
           "securityContext.runAsUser in spec.worker.template and spec.launcher.template instead";
  }
  if (Contains(kubelet_message, "cannot verify user is non-root")) {
    return kubelet_message +
           "; set securityContext.runAsUser, a number, in spec.worker.template and "
           "spec.launcher.template";
  }
  const std::string_view kind = MissingObject(kubelet_message);
  if (kind.empty()) return kubelet_message;
  return kubelet_message + "; create the " + std::string(kind) + ", or correct its name in the job";
}

}  // namespace ringmaster::job
