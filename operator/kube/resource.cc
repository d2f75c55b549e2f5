#include "operator/kube/resource.h"

namespace ringmaster::kube {

std::string Resource::ApiVersion() const {
  return group.empty() ? std::string(version) : std::string(group) + "/" + std::string(version);
}

std::string Resource::FullName() const {
  return group.empty() ? std::string(plural) : std::string(plural) + "." + std::string(group);
}

std::string CollectionPath(const Resource& resource, std::string_view ns) {
  std::string path = resource.group.empty() ? "/api/" : "/apis/";
  path += resource.ApiVersion();
  if (resource.namespaced && !ns.empty()) {
    path += "/namespaces/";
    path += ns;
  }
  path += '/';
  path += resource.plural;
  return path;
}

std::string ObjectPath(const Resource& resource, std::string_view ns, std::string_view name,
                       std::string_view subresource) {
  std::string path = CollectionPath(resource, ns);
  path += '/';
  path += name;
  if (!subresource.empty()) {
    path += '/';
    path += subresource;
  }
  return path;
}

std::string ObjectKey(std::string_view ns, std::string_view name) {
  std::string key;
  key.reserve(ns.size() + 1 + name.size());
  if (!ns.empty()) {
    key += ns;
    key += '/';
  }
  key += name;
  return key;
}

}  // namespace ringmaster::kube
