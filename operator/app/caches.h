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
  explicit Caches(const Config& config);  // outlives the caches, like all arguments below

  // In this order, once each. A job is looked at when it, an object that it controls, or a node of
  // its Pods changed; all are when a profile's spec did.
  void Feed(runtime::WorkQueue& queue, runtime::FreshnessGate& freshness);
  // A namespace is looked at when it, or what it shows of profiles, changed; all are when a profile
  // did.
  void FeedNamespaces(runtime::WorkQueue& queue, runtime::FreshnessGate& freshness);
  // All profiles are looked at when one changed: they may disagree. One that names a namespace is
  // when that changed.
  void FeedProfiles(runtime::WorkQueue& queue);
  void Watch(kube::KubeClient& client, const Clock& clock, runtime::Metrics& metrics,
             const MainEvents& events);
  void Start();
  void Stop();
  // For a new leader: the caches may be as old as a watch whose peer is gone.
  void Reconnect();

  const job::JobStore& jobs() const { return jobs_; }
  const job::PodStore& pods() const { return pods_; }
  const job::ServiceStore& services() const { return services_; }
  const job::NodeStore& nodes() const { return nodes_; }
  const job::ProfileStore& profiles() const { return profiles_; }
  const job::LocalProfileStore& local_profiles() const { return local_profiles_; }
  // Null if only one is watched.
  const job::NamespaceStore* namespaces() const {
    return config_.watch_namespace.empty() ? &namespaces_ : nullptr;
  }

  // For the queue's keys: the oldest job first, as it is now; last what is not a job any more.
  std::function<bool(const std::string&, const std::string&)> ByAge() const;

  // Caches that the operator requires; Nodes and LocalTrainingProfiles are not among
  // them.
  bool Synced() const;
  std::string Problems() const;
  // False if a thread has made no progress for long.
  bool Healthy(std::chrono::milliseconds limit) const;

 private:
  struct Watched {
    kube::Resource resource;
    std::unique_ptr<runtime::Reflector> reflector;
    bool needed = true;
  };

  void Reconnect(const kube::Resource& resource);
  void LookAtNamespaces() const;
  // Profiles that name the namespace; empty: all.
  void LookAtProfiles(const std::string& ns = {}) const;
  // kAll: the spec changed, or whether runs can start under the profile; jobs depend on both.
  // kVerdict: it has been judged since; the lists of its namespaces wait for that.
  enum class ProfileChange { kNone, kVerdict, kAll };
  // `profile` is null if it was deleted. Called on the watch's thread only.
  ProfileChange NoteProfile(const kube::ObjectMeta& meta, const job::Profile* profile);

  const Config& config_;
  job::JobStore jobs_;
  job::PodStore pods_;
  job::ServiceStore services_;
  job::NodeStore nodes_;
  job::ProfileStore profiles_;
  job::LocalProfileStore local_profiles_;
  job::NamespaceStore namespaces_;
  runtime::WorkQueue* namespace_queue_ = nullptr;  // set by Feed(), like the next one
  runtime::WorkQueue* profile_queue_ = nullptr;
  struct ProfileVersion {
    std::string uid;
    int64_t generation = 0;
    bool begins = true;   // runs can
    bool judged = false;  // its verdict is for this generation
    friend bool operator==(const ProfileVersion&, const ProfileVersion&) = default;
  };
  std::map<std::string, ProfileVersion> profile_versions_;  // by name
  job::NodeChanges node_changes_{nodes_, pods_, jobs_};
  runtime::WatchListSupport watch_list_;
  std::vector<Watched> watched_;
};

}  // namespace ringmaster
