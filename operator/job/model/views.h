#pragma once

// The stored forms of Pods, Services, Nodes, Namespaces and LocalTrainingProfiles: structs with
// typed fields instead of JSON documents (6,400 Pods as JSON trees take 145 MiB). The Project
// functions create them when objects arrive; observe.h and the planner read them.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "common/base/result.h"

namespace ringmaster::job {

enum class Role { kOther, kWorker, kLauncher };

enum class PodPhase { kPending, kRunning, kSucceeded, kFailed, kUnknown };

// The state of the managed container, or of another container of the Pod that cannot start.
struct ContainerView {
  std::string waiting_reason;  // the kubelet's reason, such as ImagePullBackOff; empty: not waiting
  std::string waiting_message;
  bool terminated = false;
  int exit_code = 0;
  int signal = 0;
  std::string ended_reason;   // why it ended, for example OOMKilled or StartError
  std::string ended_message;  // its termination message
  std::string finished_at;    // RFC 3339
  std::string memory_limit;   // the limit in its spec; set only if it ran out of memory
};

// How much of a resource a container requests.
struct RequestView {
  std::string container;
  std::string amount;  // a quantity
};

struct PodView {
  std::string ns;
  std::string name;
  std::string uid;
  std::string resource_version;
  std::string owner_uid;
  std::string node;          // empty until scheduled
  std::string ip;            // empty until assigned
  std::string created_at;    // RFC 3339
  std::string scheduled_at;  // RFC 3339; empty until scheduled
  std::string disruption;    // why Kubernetes evicts it, for example EvictionByEvictionAPI
  Role role = Role::kOther;
  int index = -1;         // workers
  int64_t term = 0;       // launchers
  std::string revision;   // revision of the spec from which it was created (run_pin.h)
  bool deleting = false;  // whether deletionTimestamp is set
  std::string seed_id;    // launchers: id of the seed from which its keys are derived
  std::string leaving;    // api::kAnnotationLeaving: why the Pod must leave; empty: it stays
  PodPhase phase = PodPhase::kPending;
  // Whether all containers have terminated. The kubelet reports this before the phase.
  bool containers_ended = false;
  std::string reason;         // status.reason, for example Evicted
  std::string message;        // status.message
  std::string unschedulable;  // the scheduler's message while no node fits; else empty
  // The managed container's request, or else another container's, for InsufficientResource().
  std::optional<RequestView> request;
  ContainerView container;

  // Returns true if the managed container has ended, or all containers of the Pod have.
  bool Ended() const { return container.terminated || Over(); }
  // Returns true if the Pod succeeded. An evicted or preempted Pod has not succeeded.
  bool Completed() const {
    if (!container.terminated) return phase == PodPhase::kSucceeded;
    return container.exit_code == 0 && (phase != PodPhase::kFailed || reason.empty());
  }
  // Returns true if no container of the Pod runs any more and the kubelet has cleaned up. Such a
  // Pod is gone as soon as it is deleted.
  bool Over() const { return phase == PodPhase::kSucceeded || phase == PodPhase::kFailed; }
  // Returns true if no container of the Pod runs any more.
  bool Stopped() const { return containers_ended || Over(); }
};

struct ServiceView {
  std::string ns;
  std::string name;
  std::string uid;
  std::string resource_version;
  std::string owner_uid;
  std::string cluster_ip;  // "None" for headless Services
  std::string seed_id;
  std::string installation;  // the installation that manages the job
  int64_t term = 0;          // term of the launcher Pod that it selects
};

struct NodeView {
  std::string name;
  // False if its condition Ready is False, or Unknown because the kubelet does not report.
  bool ready = true;
  std::string not_ready_reason;  // reason of that condition, for example NodeStatusUnknown
  bool unschedulable = false;    // cordoned
  bool out_of_service = false;   // whether it has the taint out-of-service, so that it runs no Pods
  // The source addresses of connections from processes on the node: the node's addresses, and the
  // first addresses of its Pod ranges, which network plugins assign to the node.
  std::vector<std::string> addresses{};
  // How much of each extended resource, such as nvidia.com/gpu, its Pods can request in total.
  std::map<std::string, int64_t> extended_resources{};

  friend bool operator==(const NodeView&, const NodeView&) = default;
};

struct NamespaceView {
  std::string name;
  bool deleting = false;
};

// A LocalTrainingProfile.
struct LocalProfileView {
  std::string name;
  std::string uid;
  std::string installation;  // the installation that maintains the object
  std::string spec;          // JSON
};

// Returns the first resource that the scheduler's message calls insufficient; empty: none.
std::string InsufficientResource(std::string_view scheduler_message);

// Returns true for the waiting reasons of a normal start, and for an empty reason.
bool IsNormalWait(const std::string& waiting_reason);

// Convert an object to its stored form. Return kInvalid if the object has no name.
Result<PodView> ProjectPod(const nlohmann::json& object);
Result<ServiceView> ProjectService(const nlohmann::json& object);
Result<NodeView> ProjectNode(const nlohmann::json& object);
Result<NamespaceView> ProjectNamespace(const nlohmann::json& object);
Result<LocalProfileView> ProjectLocalProfile(const nlohmann::json& object);

}  // namespace ringmaster::job
