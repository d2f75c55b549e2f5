#include "operator/job/model/observed.h"

#include <set>

namespace ringmaster::job {

std::vector<int> Observed::FreeIndices(std::size_t count) const {
  std::set<int> own;
  ForEachWorker([&](const PodPtr& worker) { own.insert(worker->index); });
  std::vector<int> free;
  for (int index = 0; free.size() < count; ++index) {
    if (!own.contains(index) && !name_taken(index)) free.push_back(index);
  }
  return free;
}

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
