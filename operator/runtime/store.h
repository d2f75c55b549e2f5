#pragma once

// A cache of the objects of one resource. It maps keys ("ns/name") to projections T with typed
// fields. One Reflector writes it and reconcilers read it. Reads return shared_ptr<const T>
// snapshots, which later updates do not change. The store also keeps each object's metadata
// and an index by the UID of the controlling owner. It is a template, so its implementation
// is in this header.
//
//   Store<PodView> pods(ProjectPod);  // Result<PodView> ProjectPod(const nlohmann::json&)
//
//   pods.OnChange([&](const kube::ObjectMeta& meta, Change) { queue.Add(OwnerKey(meta)); });
//
//   for (const auto& pod : pods.ByOwner(job_ns, job_uid)) Use(*pod);

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "common/base/mutex.h"
#include "common/base/result.h"
#include "operator/kube/object_meta.h"
#include "operator/runtime/store_writer.h"

namespace ringmaster::runtime {

// Thread-safe.
template <typename T>
class Store final : public StoreWriter {
 public:
  using Projection = std::function<Result<T>(const nlohmann::json&)>;
  using Listener = std::function<void(const kube::ObjectMeta&, Change)>;
  using Snapshot = std::shared_ptr<const T>;

  explicit Store(Projection project) : project_(std::move(project)) {}

  // Sets the function that the Reflector's thread calls after each change, without a lock. The
  // function must only enqueue a key. REQUIRES: called before the Reflector starts.
  void OnChange(Listener listener) { listener_ = std::move(listener); }

  // Returns the object with this key, or null if it does not exist.
  Snapshot Get(const std::string& key) const {
    const MutexLock lock(mutex_);
    const auto found = entries_.find(key);
    return found == entries_.end() ? nullptr : found->second.value;
  }

  // Returns the objects of this namespace whose controlling owner has this UID, ordered by key.
  // Ignores other namespaces, because an owner must be in the namespace of its objects.
  std::vector<Snapshot> ByOwner(const std::string& ns, const std::string& owner_uid) const {
    const MutexLock lock(mutex_);
    std::vector<Snapshot> found;
    const auto owned = by_owner_.find(owner_uid);
    if (owned == by_owner_.end()) return found;
    found.reserve(owned->second.size());
    for (const auto& [key, value] : owned->second) {
      if (key.starts_with(ns + "/")) found.push_back(value);
    }
    return found;
  }

  std::vector<Snapshot> List() const {
    const MutexLock lock(mutex_);
    std::vector<Snapshot> all;
    all.reserve(entries_.size());
    for (const auto& [key, entry] : entries_) all.push_back(entry.value);
    return all;
  }

  // Returns the objects of a namespace, ordered by name.
  std::vector<Snapshot> InNamespace(const std::string& ns) const {
    const MutexLock lock(mutex_);
    std::vector<Snapshot> found;
    const std::string prefix = ns + "/";
    for (auto entry = entries_.lower_bound(prefix);
         entry != entries_.end() && entry->first.starts_with(prefix); ++entry) {
      found.push_back(entry->second.value);
    }
    return found;
  }

  std::size_t size() const {
    const MutexLock lock(mutex_);
    return entries_.size();
  }

  // Returns the newest version in events and bookmarks so far; empty before the first list.
  std::string LastSeenVersion() const {
    const MutexLock lock(mutex_);
    return last_seen_;
  }

  // Returns true once the first full list is stored.
  bool Synced() const {
    const MutexLock lock(mutex_);
    return synced_;
  }

  Result<void> Apply(const nlohmann::json& object, kube::ObjectMeta meta) override {
    Result<T> projected = project_(object);
    if (!projected.ok()) {
      Delete(meta);
      return projected.error().WithContext("reading " + meta.Key());
    }
    auto value = std::make_shared<const T>(*std::move(projected));
    {
      const MutexLock lock(mutex_);
      last_seen_ = meta.resource_version;
      Put(entries_, by_owner_, meta, std::move(value));
    }
    Report(meta, Change::kApplied);
    return {};
  }

  void Delete(const kube::ObjectMeta& meta) override {
    bool known = false;
    {
      const MutexLock lock(mutex_);
      if (!meta.resource_version.empty()) last_seen_ = meta.resource_version;
      known = Remove(entries_, by_owner_, meta.Key());
    }
    if (known) Report(meta, Change::kDeleted);
  }

  Result<void> Stage(const nlohmann::json& object, kube::ObjectMeta meta) override {
    Result<T> projected = project_(object);
    if (!projected.ok()) return projected.error().WithContext("reading " + meta.Key());
    Put(staged_, staged_by_owner_, meta, std::make_shared<const T>(*std::move(projected)));
    return {};
  }

  void Unstage(const kube::ObjectMeta& meta) override {
    Remove(staged_, staged_by_owner_, meta.Key());
  }

  void Swap(const std::string& resource_version) override {
    std::vector<std::pair<kube::ObjectMeta, Change>> changes;
    {
      const MutexLock lock(mutex_);
      for (auto& [key, entry] : entries_) {
        if (!staged_.contains(key)) changes.emplace_back(MetaOf(key, entry), Change::kDeleted);
      }
      for (auto& [key, entry] : staged_) {
        const auto old = entries_.find(key);
        const bool same = old != entries_.end() && old->second.uid == entry.uid &&
                          old->second.resource_version == entry.resource_version;
        if (!same) changes.emplace_back(MetaOf(key, entry), Change::kApplied);
      }
      entries_.swap(staged_);
      by_owner_.swap(staged_by_owner_);
      last_seen_ = resource_version;
      synced_ = true;
    }
    DropStaged();
    for (const auto& [meta, change] : changes) Report(meta, change);
  }

  void DropStaged() override {
    staged_ = {};
    staged_by_owner_ = {};
  }

  void Seen(const std::string& resource_version) override {
    const MutexLock lock(mutex_);
    last_seen_ = resource_version;
  }

 private:
  struct Entry {
    Snapshot value;
    std::string uid;
    std::string resource_version;
    std::string owner_kind;
    std::string owner_name;
    std::string owner_uid;
  };
  using Entries = std::map<std::string, Entry>;
  using ByOwnerUid = std::unordered_map<std::string, std::map<std::string, Snapshot>>;

  static kube::ObjectMeta MetaOf(const std::string& key, const Entry& entry);

  static void Put(Entries& entries, ByOwnerUid& by_owner, const kube::ObjectMeta& meta,
                  Snapshot value) {
    Entry& entry = entries[meta.Key()];
    if (!entry.owner_uid.empty() && entry.owner_uid != meta.owner_uid) {
      RemoveOwned(by_owner, entry.owner_uid, meta.Key());
    }
    if (!meta.owner_uid.empty()) by_owner[meta.owner_uid][meta.Key()] = value;
    entry = {std::move(value), meta.uid,        meta.resource_version,
             meta.owner_kind,  meta.owner_name, meta.owner_uid};
  }

  static bool Remove(Entries& entries, ByOwnerUid& by_owner, const std::string& key) {
    const auto found = entries.find(key);
    if (found == entries.end()) return false;
    RemoveOwned(by_owner, found->second.owner_uid, key);
    entries.erase(found);
    return true;
  }

  static void RemoveOwned(ByOwnerUid& by_owner, const std::string& owner_uid,
                          const std::string& key) {
    const auto owned = by_owner.find(owner_uid);
    if (owned == by_owner.end()) return;
    owned->second.erase(key);
    if (owned->second.empty()) by_owner.erase(owned);
  }

  void Report(const kube::ObjectMeta& meta, Change change) const {
    if (listener_) listener_(meta, change);
  }

  // Constant once the Reflector runs.
  const Projection project_;
  Listener listener_;

  // Used only by the Reflector's thread.
  Entries staged_;
  ByOwnerUid staged_by_owner_;

  mutable Mutex mutex_;
  Entries entries_ RINGMASTER_GUARDED_BY(mutex_);
  ByOwnerUid by_owner_ RINGMASTER_GUARDED_BY(mutex_);
  std::string last_seen_ RINGMASTER_GUARDED_BY(mutex_);
  bool synced_ RINGMASTER_GUARDED_BY(mutex_) = false;
};

template <typename T>
kube::ObjectMeta Store<T>::MetaOf(const std::string& key, const Entry& entry) {
  kube::ObjectMeta meta;
  const std::size_t slash = key.find('/');
  if (slash != std::string::npos) meta.ns = key.substr(0, slash);
  meta.name = slash == std::string::npos ? key : key.substr(slash + 1);
  meta.uid = entry.uid;
  meta.resource_version = entry.resource_version;
  meta.owner_kind = entry.owner_kind;
  meta.owner_name = entry.owner_name;
  meta.owner_uid = entry.owner_uid;
  return meta;
}

}  // namespace ringmaster::runtime
