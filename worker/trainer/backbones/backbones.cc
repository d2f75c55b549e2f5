#include "worker/trainer/backbones/backbones.h"

#include <algorithm>
#include <iterator>

namespace ringmaster::trainer {
namespace {

struct NamedStages {
  const char* name;
  IResNetStages stages;
};

// The stages are the same as in insightface.
constexpr std::array kResNets{NamedStages{"r18", {2, 2, 2, 2}}, NamedStages{"r34", {3, 4, 6, 3}},
                              NamedStages{"r50", {3, 4, 14, 3}},
                              NamedStages{"r100", {3, 13, 30, 3}}};
constexpr char kSmall[] = "small";

}  // namespace

std::vector<std::string> BackboneNames() {
  std::vector<std::string> names{kSmall};
  std::ranges::transform(kResNets, std::back_inserter(names), &NamedStages::name);
  return names;
}

std::unique_ptr<Backbone> MakeBackbone(const std::string& name, const BackboneOptions& options) {
  const auto found = std::ranges::find(kResNets, name, &NamedStages::name);
  if (found == kResNets.end()) return MakeSmallNet(options);
  return MakeIResNet(options, found->stages);
}

}  // namespace ringmaster::trainer
