#pragma once

// The API resources that Ringmaster uses, and their paths on the API server. Plain values.

#include <string>
#include <string_view>

namespace ringmaster::kube {

struct Resource {
  std::string_view group;  // "" for the core group
  std::string_view version;
  std::string_view plural;
  std::string_view kind;
  bool namespaced = true;

  // Returns the value of apiVersion: "v1" or "<group>/v1".
  std::string ApiVersion() const;
  // Returns the name in RBAC messages, such as "pods" or "trainingjobs.ringmaster.dev".
  std::string FullName() const;

  friend bool operator==(const Resource&, const Resource&) = default;
};

inline constexpr Resource kPods{"", "v1", "pods", "Pod"};
inline constexpr Resource kServices{"", "v1", "services", "Service"};
inline constexpr Resource kSecrets{"", "v1", "secrets", "Secret"};
inline constexpr Resource kNodes{"", "v1", "nodes", "Node", false};
inline constexpr Resource kNamespaces{"", "v1", "namespaces", "Namespace", false};
inline constexpr Resource kNetworkPolicies{"networking.k8s.io", "v1", "networkpolicies",
                                           "NetworkPolicy"};
inline constexpr Resource kControllerRevisions{"apps", "v1", "controllerrevisions",
                                               "ControllerRevision"};
inline constexpr Resource kLeases{"coordination.k8s.io", "v1", "leases", "Lease"};
inline constexpr Resource kEvents{"events.k8s.io", "v1", "events", "Event"};
inline constexpr Resource kTrainingJobs{"ringmaster.dev", "v1alpha1", "trainingjobs",
                                        "TrainingJob"};
inline constexpr Resource kTrainingProfiles{"ringmaster.dev", "v1alpha1", "trainingprofiles",
                                            "TrainingProfile"};
inline constexpr Resource kLocalTrainingProfiles{"ringmaster.dev", "v1alpha1",
                                                 "localtrainingprofiles", "LocalTrainingProfile"};

// Returns a path such as "/api/v1/namespaces/<ns>/pods". For an empty namespace or a cluster-scoped
// kind, the path has no namespace.
std::string CollectionPath(const Resource& resource, std::string_view ns);

// Returns a path such as "/api/v1/namespaces/<ns>/pods/<name>[/<subresource>]".
std::string ObjectPath(const Resource& resource, std::string_view ns, std::string_view name,
                       std::string_view subresource = {});

// Returns the key of an object in stores, queues and logs: "<ns>/<name>", or "<name>" for
// cluster-scoped objects.
std::string ObjectKey(std::string_view ns, std::string_view name);

}  // namespace ringmaster::kube
