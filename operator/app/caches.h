#pragma once

// What the operator knows of the cluster, and the watches that keep it so. Used by main.cc alone.

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "operator/app/main_events.h"
#include "operator/app/options.h"
#include "operator/job/controller/node_changes.h"
#include "operator/job/controller/observe.h"
#include "operator/kube/kube_client.h"
#include "operator/runtime/freshness.h"
#include "operator/runtime/metrics.h"
#include "operator/runtime/reflector.h"
#include "operator/runtime/work_queue.h"

namespace ringmaster {

class Caches {
 public:
  Caches();

  // In this order, once each; what is given outlives the caches. A job is looked at when it, an
  // object that it controls, or a node of its Pods changed; all are when a profile did.
  void Feed(runtime::WorkQueue& queue, runtime::FreshnessGate& freshness);
  void Watch(kube::KubeClient& client, const Clock& clock, const Config& config,
             runtime::Metrics& metrics, const MainEvents& events);
  void Start();
  void Stop();
  // For who begins to lead: what is known may be as old as a watch whose peer is gone.
  void Reconnect();

  const job::JobStore& jobs() const { return jobs_; }
  const job::PodStore& pods() const { return pods_; }
  const job::ServiceStore& services() const { return services_; }
  const job::NodeStore& nodes() const { return nodes_; }
  const job::ProfileStore& profiles() const { return profiles_; }

  // For the queue's keys: the oldest job first, as it is now; last what is no job any more.
  std::function<bool(const std::string&, const std::string&)> ByAge() const;

  // Of what the operator cannot do without; Nodes are not part of it.
  bool Synced() const;
  std::string Problems() const;
  // False when a thread has not moved for long.
  bool Healthy(std::chrono::milliseconds limit) const;

 private:
  struct Watched {
    kube::Resource resource;
    std::unique_ptr<runtime::Reflector> reflector;
    bool needed = true;
  };

  void Reconnect(const kube::Resource& resource);

  job::JobStore jobs_;
  job::PodStore pods_;
  job::ServiceStore services_;
  job::NodeStore nodes_;
  job::ProfileStore profiles_;
  job::NodeChanges node_changes_{nodes_, pods_, jobs_};
  runtime::WatchListSupport watch_list_;
  std::vector<Watched> watched_;
};

}  // namespace ringmaster
