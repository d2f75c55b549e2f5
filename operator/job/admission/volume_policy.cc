#include "operator/job/admission/volume_policy.h"

#include <algorithm>
#include <array>
#include <string_view>

#include <nlohmann/json.hpp>

#include "operator/kube/json_access.h"

namespace ringmaster::job {

using nlohmann::json;

namespace {

constexpr std::array kVolumeKinds{"configMap", "csi",       "downwardAPI", "emptyDir",
                                  "ephemeral", "projected", "secret",      "persistentVolumeClaim"};
constexpr std::array kReadOnlyKinds{"configMap", "downwardAPI", "projected", "secret"};

void CheckOneSource(const json& volume, const std::string& path, Findings& found) {
  found.RefuseSet(volume, "name", path, kByRingmaster);
  json anonymous = volume;
  anonymous.erase("name");
  const auto sources = std::count_if(anonymous.begin(), anonymous.end(),
                                     [](const json& value) { return !value.is_null(); });
  if (sources != 1) {
    found.Add(path, "names " + std::to_string(sources) +
                        " volume sources instead of one; write for example "
                        "{persistentVolumeClaim: {claimName: NAME}}");
  }
  CheckVolume(anonymous, path, false, found);
}

}  // namespace

void CheckVolume(const json& volume, const std::string& path, bool may_use_token, Findings& found) {
  if (kube::GetString(volume, {"name"}).starts_with("ringmaster-")) {
    found.Add(path + ".name",
              "starts with \"ringmaster-\", which is kept for Ringmaster's own; choose another "
              "name");
  }
  for (const auto& [key, value] : volume.items()) {
    const bool allowed =
        std::find(kVolumeKinds.begin(), kVolumeKinds.end(), key) != kVolumeKinds.end();
    if (key != "name" && !value.is_null() && !allowed) {
      found.Add(path + "." + key,
                "is refused, because the profile \"restricted\" has no such volumes; use a "
                "persistentVolumeClaim, emptyDir, configMap, secret, projected, downwardAPI, csi "
                "or ephemeral volume");
    }
  }
  const auto check_source = [&](const json& source, const std::string& at) {
    for (const char* credential : {"serviceAccountToken", "podCertificate"}) {
      if (may_use_token && std::string_view(credential) == "serviceAccountToken") continue;
      found.RefuseSet(source, credential, at,
                      "is refused, because a job's Pods hold no API credentials but the token of a "
                      "serviceAccountName that the namespace policy lists; remove it");
    }
  };
  found.IfObject(volume, "projected", path, [&](const json& projected, const std::string& at) {
    found.ForEach(projected, "sources", at, check_source);
  });
}

void CheckCheckpointVolume(const json& volume, const std::string& path, Findings& found) {
  for (const char* kind : kReadOnlyKinds) {
    found.RefuseSet(
        volume, kind, path,
        "cannot be written, and checkpoints are; use a persistentVolumeClaim that all workers "
        "can share");
  }
  CheckOneSource(volume, path, found);
}

void CheckDataSource(const json& volume, const std::string& path, Findings& found) {
  found.RefuseSet(volume, "emptyDir", path,
                  "is empty in every new Pod, and the data is copied from here; use a "
                  "persistentVolumeClaim that holds it");
  CheckOneSource(volume, path, found);
}

}  // namespace ringmaster::job
