#pragma once

// The stores' projections of a job's Pods and Services, of Nodes and Namespaces, and of their
// TrainingProfiles: structs with typed fields instead of JSON documents (6,400 Pods as JSON trees
// take 145 MiB). The projections below create them as objects arrive; observe and plan read them.

#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "common/base/result.h"

namespace ringmaster::job {

enum class Role { kOther, kWorker, kLauncher };

enum class PodPhase { kPending, kRunning, kSucceeded, kFailed, kUnknown };

// The state of the container that matters: the managed one, or another that cannot start.
struct ContainerView {
  std::string waiting_reason;  // the kubelet's, for example ImagePullBackOff; empty unless it waits
  std::string waiting_message;
  bool terminated = false;
  int exit_code = 0;
  int signal = 0;
  std::string ended_reason;   // for example OOMKilled, StartError
  std::string ended_message;  // its termination message
  std::string finished_at;    // RFC 3339
  std::string memory_limit;   // of one that ran out of memory, as its spec has it; empty: none
};

struct PodView {
  std::string ns;
  std::string name;
  std::string uid;
  std::string resource_version;
  std::string owner_uid;
  std::string node;          // empty until scheduled
  std::string ip;            // empty until it has one
  std::string created_at;    // RFC 3339
  std::string scheduled_at;  // the same, of when it got its node; empty: it has none
  std::string disruption;    // why Kubernetes takes it away, for example EvictionByEvictionAPI
  Role role = Role::kOther;
  int index = -1;         // workers
  int64_t term = 0;       // launchers
  std::string revision;   // of the text that it is made from (run_pin.h)
  bool deleting = false;  // deletionTimestamp is set
  std::string seed_id;    // launchers: of the keyring, whose keys it has
  std::string leaving;    // api::kAnnotationLeaving: why it has to go; empty: it stays
  PodPhase phase = PodPhase::kPending;
  std::string reason;         // status.reason, for example Evicted
  std::string message;        // status.message
  std::string unschedulable;  // the scheduler's message while no node fits; else empty
  ContainerView container;

  // The managed container has ended, whatever others of the Pod do, or the Pod has as a whole.
  bool Ended() const { return container.terminated || Over(); }
  // It ended, with success. A Pod that was taken away (evicted, preempted) has not.
  bool Completed() const {
    if (!container.terminated) return phase == PodPhase::kSucceeded;
    return container.exit_code == 0 && (phase != PodPhase::kFailed || reason.empty());
  }
  // Nothing of it runs any more.
  bool Over() const { return phase == PodPhase::kSucceeded || phase == PodPhase::kFailed; }
};

struct ServiceView {
  std::string ns;
  std::string name;
  std::string uid;
  std::string resource_version;
  std::string owner_uid;
  std::string cluster_ip;  // "None" for headless ones
  std::string seed_id;
  std::string installation;  // that has the job
  int64_t term = 0;          // of the launcher Pods it selects
};

struct NodeView {
  std::string name;
  // False when its condition Ready says False, or Unknown: the kubelet has not been heard.
  bool ready = true;
  std::string not_ready_reason;  // of that condition, for example NodeStatusUnknown
  bool unschedulable = false;    // cordoned
  bool out_of_service = false;   // tainted so by a person: nothing runs there any more
  // From which its own processes may be seen to connect: its addresses, and the first ones of its
  // Pods' ranges, which network plugins take for the node.
  std::vector<std::string> addresses{};

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
  std::string installation;  // that keeps it
  std::string spec;          // JSON
};

// True for the waiting reasons of a healthy start, and for none.
bool IsNormalWait(const std::string& waiting_reason);

// kInvalid when the object has no name.
Result<PodView> ProjectPod(const nlohmann::json& object);
Result<ServiceView> ProjectService(const nlohmann::json& object);
Result<NodeView> ProjectNode(const nlohmann::json& object);
Result<NamespaceView> ProjectNamespace(const nlohmann::json& object);
Result<LocalProfileView> ProjectLocalProfile(const nlohmann::json& object);

}  // namespace ringmaster::job
