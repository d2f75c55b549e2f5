#include "operator/job/admission/job_rules.h"

#include <algorithm>
#include <filesystem>

#include "common/base/cut_text.h"

namespace ringmaster::job {

bool JobRules::Grants() const {
  return host_network || privileged || root || resource_claims || !service_accounts.empty() ||
         !capabilities.empty() || !devices.empty() || !schedulers.empty() || !host_paths.empty();
}

void JobRules::LimitAs(const JobRules& other) {
  const auto take = [](auto& limit, const auto& of_other) {
    if (!limit) limit = of_other;
  };
  take(image_prefixes, other.image_prefixes);
  take(priority_classes, other.priority_classes);
  take(runtime_classes, other.runtime_classes);
  take(max_workers, other.max_workers);
  take(max_gpus, other.max_gpus);
  max_devices.insert(other.max_devices.begin(), other.max_devices.end());
}

std::string JobRules::HowToAllow(const std::string& item) const {
  std::vector<std::string> others = open;
  others.erase(std::remove(others.begin(), others.end(), profile), others.end());
  return "the TrainingProfile \"" + profile + "\" of this job does not allow it in spec." + item +
         (others.empty() ? "; "
                         : "; in spec.profile, name another profile of this namespace" +
                               Listed(others) + " that allows it, or ") +
         "ask the platform team";
}

std::string Listed(const std::vector<std::string>& names) {
  return names.empty() ? "" : " (" + ListText(names) + ")";
}

bool IsBelowHostPath(const std::string& path, const std::string& prefix) {
  if (!path.starts_with('/') || !prefix.starts_with('/')) return false;
  const auto parts = [](const std::string& text) {
    std::vector<std::string> found;
    for (const auto& part : std::filesystem::path(text).relative_path()) {
      if (!part.empty() && part != ".") found.push_back(part.string());
    }
    return found;
  };
  const std::vector<std::string> inner = parts(path);
  const std::vector<std::string> outer = parts(prefix);
  if (inner.size() < outer.size()) return false;
  for (const std::string& part : inner) {
    if (part == "..") return false;
  }
  return std::equal(outer.begin(), outer.end(), inner.begin());
}

}  // namespace ringmaster::job
