#include "operator/job/model/observed.h"

namespace ringmaster::job {

std::vector<PodPtr> Observed::PodsToDelete() const {
  std::vector<PodPtr> pods = live;
  for (const auto* bucket : {&completed, &failed, &of_other_text}) {
    pods.insert(pods.end(), bucket->begin(), bucket->end());
  }
  if (launcher != nullptr) pods.push_back(launcher);
  pods.insert(pods.end(), old_launchers.begin(), old_launchers.end());
  std::erase_if(pods, [](const PodPtr& pod) { return pod->deleting; });
  return pods;
}

}  // namespace ringmaster::job
