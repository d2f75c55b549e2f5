#pragma once

// The part of an object's metadata that the machinery needs: identity, version and controlling
// owner. Read from JSON once, as the object arrives; everything else of an object is the business
// of the code that projects it.

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "common/base/result.h"

namespace ringmaster::kube {

struct ObjectMeta {
  std::string ns;  // empty for cluster-scoped kinds
  std::string name;
  std::string uid;
  std::string resource_version;
  // For the owner reference with controller: true; empty without one.
  std::string owner_kind;
  std::string owner_name;
  std::string owner_uid;

  std::string Key() const;  // ObjectKey(ns, name)
};

// kInvalid when the JSON is not an object with metadata.name.
Result<ObjectMeta> ReadObjectMeta(const nlohmann::json& object);

}  // namespace ringmaster::kube
