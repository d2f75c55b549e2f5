#pragma once

// The operator's caches of the cluster and the watches that update them. Used only by main.cc.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "operator/app/main_events.h"
#include "operator/app/options.h"
#include "operator/job/controller/node_changes.h"
#include "operator/job/controller/observe.h"
#include "operator/kube/kube_client.h"
#include "operator/kube/object_meta.h"
#include "operator/runtime/freshness.h"
#include "operator/runtime/metrics.h"
#include "operator/runtime/reflector.h"
#include "operator/runtime/work_queue.h"

namespace ringmaster {

class Caches {
 public:
  explicit Caches(const Config& config);  // `config` and the arguments below must outlive Caches

  // Call the Feed functions once each, in this order. A job is queued when it, one of its objects
  // or a node of its Pods changes. All jobs are queued when a profile's spec changes.
  void Feed(runtime::WorkQueue& queue, runtime::FreshnessGate& freshness);
  // A namespace is queued when it or one of its LocalTrainingProfiles changes. All namespaces are
  // queued when a profile changes.
  void FeedNamespaces(runtime::WorkQueue& queue, runtime::FreshnessGate& freshness);
  // All profiles are queued when one of them changes, because they may conflict. Profiles that list
  // a namespace are queued when the namespace changes.
  void FeedProfiles(runtime::WorkQueue& queue);
  void Watch(kube::KubeClient& client, const Clock& clock, runtime::Metrics& metrics,
             const MainEvents& events);
  void Start();
  void Stop();
  // Reconnects the watches of a new leader, because a watch may hang on a broken connection.
  void Reconnect();

  const job::JobStore& jobs() const { return jobs_; }
  const job::PodStore& pods() const { return pods_; }
  const job::ServiceStore& services() const { return services_; }
  const job::NodeStore& nodes() const { return nodes_; }
  const job::ProfileStore& profiles() const { return profiles_; }
  const job::LocalProfileStore& local_profiles() const { return local_profiles_; }
  // Returns null if only one namespace is watched.
  const job::NamespaceStore* namespaces() const {
    return config_.watch_namespace.empty() ? &namespaces_ : nullptr;
  }

  // Returns a comparison for the queue's keys: the oldest job first, keys of deleted jobs last.
  std::function<bool(const std::string&, const std::string&)> ByAge() const;

  // Returns true if all caches that the operator requires are filled. Nodes, Namespaces
  // and LocalTrainingProfiles are not required.
  bool Synced() const;
  std::string Problems() const;
  // Returns false if a thread has made no progress within `limit`.
  bool Healthy(std::chrono::milliseconds limit) const;

 private:
  struct Watched {
    kube::Resource resource;
    std::unique_ptr<runtime::Reflector> reflector;
    bool needed = true;
  };

  void Reconnect(const kube::Resource& resource);
  void LookAtNamespaces() const;
  // Queues the profiles that list the namespace, or all profiles if `ns` is empty.
  void LookAtProfiles(const std::string& ns = {}) const;
  // kAll affects jobs: the spec changed, or whether runs can start with the profile.
  // kVerdict affects the profile's namespaces: its condition Accepted is now current.
  enum class ProfileChange { kNone, kVerdict, kAll };
  // Records a change of a profile (null: deleted). Called only on the watch's thread.
  ProfileChange NoteProfile(const kube::ObjectMeta& meta, const job::Profile* profile);

  const Config& config_;
  job::JobStore jobs_;
  job::PodStore pods_;
  job::ServiceStore services_;
  job::NodeStore nodes_;
  job::ProfileStore profiles_;
  job::LocalProfileStore local_profiles_;
  job::NamespaceStore namespaces_;
  runtime::WorkQueue* namespace_queue_ = nullptr;  // set by FeedNamespaces()
  runtime::WorkQueue* profile_queue_ = nullptr;
  struct ProfileVersion {
    std::string uid;
    int64_t generation = 0;
    bool begins = true;   // whether runs can start with the profile
    bool judged = false;  // whether the condition Accepted is for this generation
    friend bool operator==(const ProfileVersion&, const ProfileVersion&) = default;
  };
  std::map<std::string, ProfileVersion> profile_versions_;  // by name
  job::NodeChanges node_changes_{nodes_, pods_, jobs_};
  runtime::WatchListSupport watch_list_;
  std::vector<Watched> watched_;
};

}  // namespace ringmaster
