#pragma once

// The metadata of an object that generic code needs: identity, version and controlling
// owner. It is parsed once, when the object arrives. The code for each kind reads the object's
// other fields.

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "common/base/result.h"

namespace ringmaster::kube {

struct ObjectMeta {
  std::string ns;  // empty for cluster-scoped kinds
  std::string name;
  std::string uid;
  std::string resource_version;
  // The owner reference with controller: true. Empty if there is none.
  std::string owner_kind;
  std::string owner_name;
  std::string owner_uid;

  std::string Key() const;  // ObjectKey(ns, name)
};

// Returns kInvalid if the JSON is not an object with metadata.name.
Result<ObjectMeta> ReadObjectMeta(const nlohmann::json& object);

}  // namespace ringmaster::kube
