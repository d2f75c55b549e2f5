// Reads kubeconfig files. This file is the only user of yaml-cpp. The values are copied out of the
// YAML tree, so that no other code depends on it.
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>

#include <yaml-cpp/yaml.h>

#include "common/base/base64.h"
#include "operator/kube/cluster_config.h"

namespace ringmaster::kube {
namespace {

Error Invalid(std::string message) { return {ErrorKind::kInvalid, std::move(message)}; }

// Returns a field's scalar value; empty if it is absent or not a scalar.
std::string Text(const YAML::Node& map, const char* key) {
  const YAML::Node value = map.IsMap() ? map[key] : YAML::Node();
  return value.IsDefined() && value.IsScalar() ? value.Scalar() : std::string();
}

// Returns the map in the field `field` of the entry with the name `name` in the list `list`.
Result<YAML::Node> Entry(const YAML::Node& file, const char* list, const char* field,
                         const std::string& name) {
  const YAML::Node entries = file[list];
  if (entries.IsDefined() && entries.IsSequence()) {
    for (const YAML::Node& entry : entries) {
      if (Text(entry, "name") != name) continue;
      const YAML::Node found = entry[field];
      if (found.IsDefined() && found.IsMap()) return found;
    }
  }
  return Invalid("there is no " + std::string(field) + " named \"" + name + "\"");
}

// Decodes Base64 that may contain line breaks.
Result<std::string> DecodeLines(std::string text, const std::string& field) {
  std::erase_if(text, [](char c) { return c == '\n' || c == '\r' || c == ' '; });
  std::optional<std::string> decoded = DecodeBase64(text);
  if (!decoded) return Invalid(field + " is not valid base64");
  return *std::move(decoded);
}

std::string Absolute(const std::string& path, const std::string& kubeconfig) {
  const std::filesystem::path configured(path);
  return configured.is_absolute()
             ? path
             : (std::filesystem::path(kubeconfig).parent_path() / configured).string();
}

// Returns the content of "<field>-data" (Base64), or of the file in "<field>"; empty if neither
// exists.
Result<std::string> Material(const YAML::Node& map, const std::string& field,
                             const std::string& kubeconfig) {
  const std::string data_field = field + "-data";
  if (std::string data = Text(map, data_field.c_str()); !data.empty())
    return DecodeLines(data, data_field);
  const std::string path = Text(map, field.c_str());
  if (path.empty()) return std::string();
  std::ifstream file(Absolute(path, kubeconfig), std::ios::binary);
  if (!file.good())
    return Invalid("cannot read the file of " + field + ": " + Absolute(path, kubeconfig));
  return std::string{std::istreambuf_iterator<char>(file), {}};
}

Result<void> ReadCluster(const YAML::Node& cluster, const std::string& path,
                         ClusterConfig& config) {
  config.server = Text(cluster, "server");
  while (!config.server.empty() && config.server.back() == '/') config.server.pop_back();
  if (config.server.empty()) return Invalid("the cluster's server is missing");
  if (Text(cluster, "insecure-skip-tls-verify") == "true") {
    return Invalid(
        "insecure-skip-tls-verify is not supported: name the cluster's certificate-authority "
        "instead");
  }
  config.server_name = Text(cluster, "tls-server-name");
  Result<std::string> ca = Material(cluster, "certificate-authority", path);
  if (!ca.ok()) return ca.error();
  config.ca_pem = *std::move(ca);
  return {};
}

Result<void> ReadUser(const YAML::Node& user, const std::string& path, ClusterConfig& config) {
  for (const char* unsupported : {"exec", "auth-provider", "username"}) {
    if (user[unsupported].IsDefined()) {
      return Invalid("users with \"" + std::string(unsupported) +
                     "\" are not supported: use a client certificate or a token, for example of a "
                     "service account");
    }
  }
  config.token = Text(user, "token");
  if (const std::string file = Text(user, "tokenFile"); !file.empty())
    config.token_file = Absolute(file, path);
  Result<std::string> certificate = Material(user, "client-certificate", path);
  if (!certificate.ok()) return certificate.error();
  Result<std::string> key = Material(user, "client-key", path);
  if (!key.ok()) return key.error();
  config.certificate_pem = *std::move(certificate);
  config.key_pem = *std::move(key);
  return {};
}

Result<ClusterConfig> Read(const YAML::Node& file, const std::string& path) {
  if (!file.IsMap()) return Invalid("the file is not a YAML mapping");
  const std::string context_name = Text(file, "current-context");
  if (context_name.empty())
    return Invalid("no current-context is set (kubectl config use-context)");
  const Result<YAML::Node> context = Entry(file, "contexts", "context", context_name);
  if (!context.ok()) return context.error();
  const Result<YAML::Node> cluster = Entry(file, "clusters", "cluster", Text(*context, "cluster"));
  if (!cluster.ok()) return cluster.error();

  ClusterConfig config;
  if (Result<void> read = ReadCluster(*cluster, path, config); !read.ok()) return read.error();
  // A context without a user is allowed; its requests are anonymous.
  if (const std::string user_name = Text(*context, "user"); !user_name.empty()) {
    const Result<YAML::Node> user = Entry(file, "users", "user", user_name);
    if (!user.ok()) return user.error();
    if (Result<void> read = ReadUser(*user, path, config); !read.ok()) return read.error();
  }
  config.ns = Text(*context, "namespace");
  if (config.ns.empty()) config.ns = "default";
  return config;
}

}  // namespace

Result<ClusterConfig> LoadKubeconfig(const std::string& path) {
  const std::string doing = "reading kubeconfig " + path;
  try {
    Result<ClusterConfig> config = Read(YAML::LoadFile(path), path);
    if (!config.ok()) return config.error().WithContext(doing);
    return config;
  } catch (const YAML::BadFile&) {
    return Invalid("the file cannot be read").WithContext(doing);
  } catch (const std::exception& thrown) {
    return Invalid(thrown.what()).WithContext(doing);
  }
}

}  // namespace ringmaster::kube
