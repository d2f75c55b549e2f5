#include "operator/app/caches.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "common/base/log.h"
#include "operator/api/codec.h"
#include "operator/api/names.h"
#include "operator/job/model/views.h"
#include "operator/kube/resource.h"

namespace ringmaster {

Caches::Caches(const Config& config)
    : config_(config),
      jobs_([image = config.worker_image](const nlohmann::json& job) {
        return api::DecodeTrainingJobWithImage(job, image);
      }),
      pods_(job::ProjectPod),
      services_(job::ProjectService),
      nodes_(job::ProjectNode),
      profiles_(job::ReadProfile),
      local_profiles_(job::ProjectLocalProfile),
      namespaces_(job::ProjectNamespace) {}

void Caches::Feed(runtime::WorkQueue& queue, runtime::FreshnessGate& freshness) {
  jobs_.OnChange(
      [&queue](const kube::ObjectMeta& meta, runtime::Change) { queue.Add(meta.Key()); });
  const auto owner = [&queue](const kube::ObjectMeta& meta, runtime::Change) {
    if (meta.owner_kind == api::kKind) queue.Add(kube::ObjectKey(meta.ns, meta.owner_name));
  };
  pods_.OnChange(owner);
  services_.OnChange(owner);
  nodes_.OnChange([this, &queue](const kube::ObjectMeta& meta, runtime::Change) {
    for (const std::string& key : node_changes_.JobsToLookAt(meta.name)) queue.Add(key);
  });
  profiles_.OnChange([this, &queue](const kube::ObjectMeta& meta, runtime::Change) {
    const auto profile = profiles_.Get(meta.Key());
    const ProfileChange change = NoteProfile(meta, profile.get());
    if (change == ProfileChange::kVerdict) LookAtNamespaces();
    if (change != ProfileChange::kAll) return;
    if (profile != nullptr && !profile->problem.empty()) {
      LogWarn("Rejected a profile: no job can use it",
              {{"profile", profile->name}, {"reason", profile->problem}});
    }
    for (const auto& job : jobs_.List()) queue.Add(job->Key());
    LookAtNamespaces();
    LookAtProfiles();
  });
  freshness.Watch(
      kube::kTrainingJobs, [this] { return jobs_.LastSeenVersion(); },
      [this] { Reconnect(kube::kTrainingJobs); });
  freshness.Watch(
      kube::kPods, [this] { return pods_.LastSeenVersion(); }, [this] { Reconnect(kube::kPods); });
  freshness.Watch(
      kube::kServices, [this] { return services_.LastSeenVersion(); },
      [this] { Reconnect(kube::kServices); });
}

Caches::ProfileChange Caches::NoteProfile(const kube::ObjectMeta& meta,
                                          const job::Profile* profile) {
  if (profile == nullptr) {
    profile_versions_.erase(meta.name);
    return ProfileChange::kAll;
  }
  const ProfileVersion version{.uid = meta.uid,
                               .generation = profile->generation,
                               .begins = job::WhyNoRunBegins(*profile).empty(),
                               .judged = job::IsJudged(*profile)};
  ProfileVersion before = std::exchange(profile_versions_[meta.name], version);
  if (before == version) return ProfileChange::kNone;
  before.judged = version.judged;
  return before == version ? ProfileChange::kVerdict : ProfileChange::kAll;
}

void Caches::FeedNamespaces(runtime::WorkQueue& queue, runtime::FreshnessGate& freshness) {
  namespace_queue_ = &queue;
  namespaces_.OnChange([this, &queue](const kube::ObjectMeta& meta, runtime::Change) {
    queue.Add(meta.name);
    LookAtProfiles(meta.name);
  });
  local_profiles_.OnChange(
      [&queue](const kube::ObjectMeta& meta, runtime::Change) { queue.Add(meta.ns); });
  freshness.Watch(
      kube::kLocalTrainingProfiles, [this] { return local_profiles_.LastSeenVersion(); },
      [this] { Reconnect(kube::kLocalTrainingProfiles); });
}

void Caches::FeedProfiles(runtime::WorkQueue& queue) { profile_queue_ = &queue; }

void Caches::LookAtNamespaces() const {
  if (!config_.watch_namespace.empty()) namespace_queue_->Add(config_.watch_namespace);
  for (const auto& ns : namespaces_.List()) namespace_queue_->Add(ns->name);
}

void Caches::LookAtProfiles(const std::string& ns) const {
  for (const auto& profile : profiles_.List()) {
    const std::vector<std::string>& named = profile->namespaces;
    if (!ns.empty() && std::find(named.begin(), named.end(), ns) == named.end()) continue;
    profile_queue_->Add(kube::ObjectKey(config_.ns, profile->name));
  }
}

void Caches::Watch(kube::KubeClient& client, const Clock& clock, runtime::Metrics& metrics,
                   const MainEvents& events) {
  const auto add = [&](const kube::Resource& resource, runtime::StoreWriter& store,
                       const std::string& ns, const char* selector, bool needed) {
    runtime::ReflectorOptions options;
    options.resource = resource;
    options.ns = ns;
    options.label_selector = selector;
    if (resource == kube::kLocalTrainingProfiles)
      options.on_synced = [this] { LookAtNamespaces(); };
    if (resource == kube::kNamespaces) options.on_synced = [this] { LookAtProfiles(); };
    if (needed) {
      options.on_synced = [&events] { events.Post(MainEvents::Event::kCachesFilled); };
      options.on_recovered = [&events] { events.Post(MainEvents::Event::kServerIsBack); };
    }
    watched_.push_back(
        {resource,
         std::make_unique<runtime::Reflector>(client, clock, store, watch_list_, std::move(options),
                                              &metrics.reflector()),
         needed});
  };
  const std::string& watched = config_.watch_namespace;
  // The watch of profiles starts first. Jobs are not reconciled until all needed caches are filled.
  add(kube::kTrainingProfiles, profiles_, config_.ns, "", true);
  add(kube::kTrainingJobs, jobs_, watched, "", true);
  add(kube::kPods, pods_, watched, api::kManagedBySelector, true);
  add(kube::kServices, services_, watched, api::kManagedBySelector, true);
  // Nodes are cluster-scoped, so an operator for a single namespace may not be able to read them.
  add(kube::kNodes, nodes_, "", "", false);
  add(kube::kLocalTrainingProfiles, local_profiles_, watched, "", false);
  if (watched.empty()) add(kube::kNamespaces, namespaces_, "", "", false);
}

void Caches::Start() {
  for (const Watched& watched : watched_) watched.reflector->Start();
}

void Caches::Reconnect() {
  for (const Watched& watched : watched_) watched.reflector->Reconnect();
}

void Caches::Reconnect(const kube::Resource& resource) {
  for (const Watched& watched : watched_) {
    if (watched.resource == resource) watched.reflector->Reconnect();
  }
}

void Caches::Stop() {
  for (const Watched& watched : watched_) watched.reflector->Stop();
}

std::function<bool(const std::string&, const std::string&)> Caches::ByAge() const {
  std::unordered_map<std::string, std::string> created;
  for (const auto& job : jobs_.List()) created.emplace(job->Key(), job->created_at);
  return [created = std::move(created)](const std::string& one, const std::string& other) {
    const auto a = created.find(one);
    const auto b = created.find(other);
    if (a == created.end() || b == created.end()) return b == created.end() && a != created.end();
    return a->second < b->second;  // RFC 3339 in UTC sorts as text
  };
}

bool Caches::Synced() const {
  for (const Watched& watched : watched_) {
    if (watched.needed && !watched.reflector->Synced()) return false;
  }
  return true;
}

std::string Caches::Problems() const {
  std::string problems;
  for (const Watched& watched : watched_) {
    if (!watched.needed) continue;
    const std::string problem = watched.reflector->Problem();
    if (!problem.empty()) problems += problem + "\n";
  }
  return problems;
}

bool Caches::Healthy(std::chrono::milliseconds limit) const {
  for (const Watched& watched : watched_) {
    if (!watched.reflector->Healthy(limit)) return false;
  }
  return true;
}

}  // namespace ringmaster
