#pragma once

// The interface through which a Reflector writes to a Store of any type, and the arguments of its
// listeners.

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "common/base/result.h"
#include "operator/kube/object_meta.h"

namespace ringmaster::runtime {

enum class Change { kApplied, kDeleted };

// All methods are called by one thread.
class StoreWriter {
 public:
  virtual ~StoreWriter() = default;

  // Handles ADDED and MODIFIED. Returns an error if the object could not be projected. The store
  // then removes the object, because its older state may be wrong.
  virtual Result<void> Apply(const nlohmann::json& object, kube::ObjectMeta meta) = 0;
  virtual void Delete(const kube::ObjectMeta& meta) = 0;

  // Handle a full list: call Stage() for every object, and then Swap(), which replaces the store's
  // content in one step and reports the differences. Until then, readers see the old content.
  // Unstage() removes a staged object that was deleted meanwhile; DropStaged() removes all.
  virtual Result<void> Stage(const nlohmann::json& object, kube::ObjectMeta meta) = 0;
  virtual void Unstage(const kube::ObjectMeta& meta) = 0;
  virtual void Swap(const std::string& resource_version) = 0;
  virtual void DropStaged() = 0;

  // Handles a bookmark: all changes up to this version have been seen.
  virtual void Seen(const std::string& resource_version) = 0;
};

}  // namespace ringmaster::runtime
