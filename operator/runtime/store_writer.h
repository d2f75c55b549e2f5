#pragma once

// The interface through which a Reflector writes to a Store of any type, and the arguments of its
// listeners.

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "common/base/result.h"
#include "operator/kube/object_meta.h"

namespace ringmaster::runtime {

enum class Change { kApplied, kDeleted };

// Calls come from one thread.
class StoreWriter {
 public:
  virtual ~StoreWriter() = default;

  // ADDED or MODIFIED. An error says that the object could not be projected; the store then forgets
  // it, since serving an older state as current would be worse.
  virtual Result<void> Apply(const nlohmann::json& object, kube::ObjectMeta meta) = 0;
  virtual void Delete(const kube::ObjectMeta& meta) = 0;

  // A full list arrives: Stage() every object, then Swap() makes them the store's content in one
  // step and reports what was added, changed or vanished. Readers see the old content until then.
  // Unstage() takes one object back that was deleted meanwhile, DropStaged() all.
  virtual Result<void> Stage(const nlohmann::json& object, kube::ObjectMeta meta) = 0;
  virtual void Unstage(const kube::ObjectMeta& meta) = 0;
  virtual void Swap(const std::string& resource_version) = 0;
  virtual void DropStaged() = 0;

  // A bookmark: everything up to this version has been seen.
  virtual void Seen(const std::string& resource_version) = 0;
};

}  // namespace ringmaster::runtime
