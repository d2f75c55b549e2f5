#include "operator/kube/object_meta.h"

#include <nlohmann/json.hpp>

#include "operator/kube/json_access.h"
#include "operator/kube/resource.h"

namespace ringmaster::kube {

std::string ObjectMeta::Key() const { return ObjectKey(ns, name); }

Result<ObjectMeta> ReadObjectMeta(const nlohmann::json& object) {
  ObjectMeta meta;
  meta.name = GetString(object, {"metadata", "name"});
  if (meta.name.empty()) return Error{ErrorKind::kInvalid, "the object has no metadata.name"};
  meta.ns = GetString(object, {"metadata", "namespace"});
  meta.uid = GetString(object, {"metadata", "uid"});
  meta.resource_version = GetString(object, {"metadata", "resourceVersion"});
  for (const nlohmann::json& owner : GetArray(object, {"metadata", "ownerReferences"})) {
    if (!GetBool(owner, {"controller"})) continue;
    meta.owner_kind = GetString(owner, {"kind"});
    meta.owner_name = GetString(owner, {"name"});
    meta.owner_uid = GetString(owner, {"uid"});
  }
  return meta;
}

}  // namespace ringmaster::kube
